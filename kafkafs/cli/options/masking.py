"""`--mask`: the policy of the records that a command shows, and what a command refuses with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from kafkafs.cli.arguments import Command, clean_path
from kafkafs.cli.completing import names
from kafkafs.cli.printing.terminal.output import fail
from kafkafs.cli.printing.terminal.verbosity import verbosity
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from kafkafs.forms.record_format import RecordFormat
    from kafkafs.masking.line_mask import LineMask
    from kafkafs.masking.policy import MaskPolicy

Result = TypeVar("Result")

_RECORDS = (
    "with --mask, PATH names records: a partition, or within it records, committed,"
    " offset/RANGE or time/PERIOD"
)


class Masks:
    """The masks of a command's topics; false without --mask.

    Args:
        policy: the policy; None without one.
    """

    def __init__(self, policy: MaskPolicy | None) -> None:
        self._policy = policy

    @property
    def policy(self) -> MaskPolicy | None:
        """The policy; None without --mask."""
        return self._policy

    def __bool__(self) -> bool:
        return self._policy is not None

    def of(self, topic: str) -> LineMask | None:
        """Return the mask of a topic."""
        return None if self._policy is None else self._policy.mask(topic)

    def refuse(
        self, values: str | None, form: RecordFormat | None = None, *, value: bool = False
    ) -> None:
        """Refuse options that show bytes of records.

        Raises:
            click.UsageError: one of them is given with --mask.
        """
        if self._policy is None:
            return
        shown = {
            "--format": form is not None,
            "--values": values not in (None, "auto"),
            "--value": value,
            "--verbose": verbosity().is_verbose,
        }
        for option, is_given in shown.items():
            if is_given:
                raise click.UsageError(f"{option} shows what --mask hides: leave out {option}")

    def refuse_search(self, topics: Iterable[str]) -> None:
        """Refuse a search for a pattern in masked topics: whether it matches tells what is masked.

        Raises:
            click.UsageError: a topic has a mask.
        """
        masked = sorted(topic for topic in set(topics) if self.of(topic) is not None)
        if masked:
            raise click.UsageError(
                f"PATTERN searches what --mask hides in {', '.join(masked[:3])}:"
                " use --where, which sees masked lines, or choose other topics with --topic"
            )

    def refuse_key(self, topic: str) -> None:
        """Refuse a search for a key in a topic with masked keys.

        Raises:
            click.UsageError: the topic has such a mask.
        """
        mask = self.of(topic)
        if mask is not None and mask.masks_keys:
            raise click.UsageError(
                f"--mask hides the keys of {topic}: use grep --where, which sees masked lines"
            )

    def found(self, source: LogSource, path: str, find: Callable[[str], Result]) -> Result:
        """Return what `find` returns for a path, as `found_at`.

        Raises:
            NotFound: there are no such records. With --mask, the error names nothing from the tree: names may be keys.
        """
        # Imported here: for --help they take the start-up time of all commands.
        from kafkafs.cli.options.paths import found_at
        from kafkafs.tree.errors import NotFound

        try:
            return found_at(source, path, find)
        except NotFound:
            if self._policy is None:
                raise
            raise NotFound(clean_path(path), _RECORDS) from None

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Refuse a path of the tree that a mask hides.

        Raises:
            click.UsageError: the block asks for such a path.
        """
        if self._policy is None:
            yield
            return
        from kafkafs.tree.errors import MaskedError

        try:
            yield
        except MaskedError as error:
            raise click.UsageError(str(error)) from None

    @contextmanager
    def told(self, source: LogSource) -> Iterator[None]:
        """Say which topics of the policy are not in the source, and at the end what `fields_told` says."""
        if self._policy is None:
            yield
            return
        from kafkafs.masking.policy import MaskPolicyError, require_topics

        try:
            require_topics(source)
        except MaskPolicyError as error:
            raise click.UsageError(str(error)) from None
        topics = {log.topic_partition.topic for log in source.partitions().values()}
        for pattern in self._policy.patterns:
            if not any(map(pattern.matches, topics)):
                fail(f"--mask: no topic of the source is {pattern.text}")
        with self.fields_told():
            yield

    @contextmanager
    def fields_told(self) -> Iterator[None]:
        """Say at the end which fields no masked record had.

        Raises:
            click.exceptions.Exit: there is such a field, and the block ended without an error.
        """
        try:
            yield
        finally:
            missed = [] if self._policy is None else self._policy.missed()
            for topic, path in missed:
                fail(f"--mask: no record of {topic} that was shown has {path}")
        if missed:
            raise click.exceptions.Exit(EXIT_FINDINGS)


_BYTES = "it copies or shows bytes of records, which cannot be masked"
_REPLAY = "it shows what Kafka's own topics hold"
_FINDINGS = "its findings may have numbers from records"
_NO_RECORDS = "it shows no records"
_OTHER = "; use export, sql, cat, grep or mount, which have it"
NO_MASK = {
    "check": _FINDINGS + _OTHER,
    "completion": _NO_RECORDS,
    "diff": _REPLAY,
    "du": _NO_RECORDS,
    "erase": _BYTES + _OTHER,
    "groups": _REPLAY,
    "help": _NO_RECORDS,
    "offsets": _NO_RECORDS,
    "plan": _FINDINGS + _OTHER,
    "rebuild": _BYTES + _OTHER,
    "recover": _BYTES + _OTHER,
    "report": _FINDINGS + _OTHER,
    "schemas": _REPLAY,
    "serve": _BYTES + _OTHER,
    "spark pack": _NO_RECORDS,
    "spark restore": _BYTES + _OTHER,
    "top": _NO_RECORDS,
    "topics": _REPLAY,
    "transactions": _REPLAY,
    "umount": _NO_RECORDS,
}
"""Commands without --mask, and why they have none: each other command has it."""


def refuse_mask(error: click.NoSuchOption) -> None:
    """Say why a command has no --mask, if that is the option that was not found.

    Raises:
        click.UsageError: it is.
    """
    if error.option_name != "--mask" or error.ctx is None:
        return
    name = error.ctx.command_path.partition(" ")[2]
    if name in NO_MASK:
        raise click.UsageError(
            f"kafkafs {name} has no --mask: {NO_MASK[name]}", error.ctx
        ) from None


_STRICT = "mask_strict"


def _keep(ctx: click.Context, param: click.Parameter, is_strict: bool) -> bool:
    """Keep the flag for the policy, which is read after it."""
    ctx.meta[_STRICT] = is_strict
    return is_strict


def _masks(ctx: click.Context, param: click.Parameter, policy: MaskPolicy | None) -> Masks:
    if policy is None and ctx.meta.get(_STRICT):
        raise click.UsageError("--mask-strict is about what --mask names: give --mask POLICY, too")
    return Masks(policy)


class _PolicyFile(click.ParamType["MaskPolicy"]):
    """Path of a policy, which is read at once."""

    name = "policy"

    def convert(
        self,
        value: str | MaskPolicy,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> MaskPolicy:
        from kafkafs.masking.policy import MaskPolicy, MaskPolicyError

        if isinstance(value, MaskPolicy):
            return value
        is_strict = ctx is not None and bool(ctx.meta.get(_STRICT))
        try:
            return MaskPolicy(value, is_strict=is_strict)
        except MaskPolicyError as error:
            return self.fail(str(error), param, ctx)


def mask_option(command: Command) -> Command:
    """Add --mask, the policy of what is shown of records, and --mask-strict."""
    command = click.option(
        "--mask-strict",
        _STRICT,
        is_flag=True,
        is_eager=True,  # read before the policy
        expose_value=False,
        callback=_keep,
        help="With --mask, show nothing of a key or value that lacks a field which the policy names.",
    )(command)
    return click.option(
        "--mask",
        "masks",
        type=_PolicyFile(),
        metavar="POLICY",
        shell_complete=names.files,
        callback=_masks,
        help="Drop, hash or replace the fields of records that this file names before anything"
        " is shown: see kafkafs help masks.",
    )(command)
