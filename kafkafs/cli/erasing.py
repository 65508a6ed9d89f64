"""`kafkafs erase`: make log dirs without chosen records out of all copies, and prove that the records are gone."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

import engine
from kafkafs.cli.arguments import json_option, key_format_option, schemas_option, source_paths
from kafkafs.cli.completing import names
from kafkafs.cli.options.outputs import StagedFile
from kafkafs.cli.options.partitions import partition_options, require_choice
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.step_progress import StepProgress, stoppable
from kafkafs.cli.printing.terminal.verbosity import detail
from kafkafs.decode.shown_text import json_text, printable
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.erase.choice import RecordChoice
    from engine.erase.erasing import Erased
    from engine.log.partition_choice import PartitionChoice

_NAMESPACE = "file"
_KEYGEN = "ssh-keygen"


@click.command()
@click.argument(
    "paths", metavar="SOURCE... TARGET", nargs=-1, required=True, shell_complete=names.files
)
@click.option("--plan", "plans", is_flag=True, help="Write nothing, and take no TARGET; print all.")
@click.option(
    "--where",
    "condition",
    metavar="EXPR",
    help="""Erase the records of whose line this expression of jq is true, such as '.value.user == "u-7"'.""",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Erase the records with this key. Repeatable.",
)
@key_format_option
@click.option(
    "--records",
    "records",
    metavar="FILE",
    shell_complete=names.files,
    help="Erase the records that FILE names: lines orders-0:35, or record lines, as grep prints.",
)
@partition_options
@click.option(
    "--scan",
    "texts",
    multiple=True,
    metavar="TEXT",
    help="Look for this in the result, too, such as a name or an address. Repeatable.",
)
@click.option(
    "--damaged",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    show_default=True,
    help="What to do with damaged bytes, which may hold what is to be erased: drop leaves them out.",
)
@click.option(
    "--manifest",
    metavar="FILE",
    shell_complete=names.files,
    help="Write the manifest to the new FILE, too: the proof to keep.",
)
@click.option(
    "--sign",
    "signing_key",
    metavar="KEYFILE",
    shell_complete=names.files,
    help="Sign the file of --manifest with this SSH key, by ssh-keygen -Y sign.",
)
@click.option(
    "--verify",
    "manifest_to_verify",
    metavar="MANIFEST",
    shell_complete=names.files,
    help="Compare TARGET with the MANIFEST of an erase: its files, and that no erased record is back.",
)
@schemas_option
@json_option
@verbosity_options
def erase(paths: tuple[str, ...], plans: bool, **given: Any) -> None:  # noqa: ANN401
    """Make log dirs without chosen records out of all their copies, and prove that the records are gone.

    SOURCE is every log dir of the cluster: of all brokers, and of a controller, whose metadata names the replicas. None
    is changed. TARGET must not exist, or be empty; it gets a log dir for each SOURCE, and the manifest
    kafkafs-rebuild.json, without any content of an erased record. It is complete or absent. Records are erased in logs,
    and in what brokers set aside: .deleted and .swap files, -stray, -delete and -future folders. All other records keep
    their bytes or, in a batch that loses records, offsets, times, keys, values and headers; producers, transactions and
    leader epochs go on.

    \b
    kafkafs erase --plan --key user-4711 /disks/broker-*
    kafkafs erase --key user-4711 --scan anna@example.org /disks/* /srv/erased
    kafkafs erase --where '.value.user == "u-7"' -t clicks /disks/* /srv/erased
    kafkafs grep 4711 /disks/broker-1 --topic orders > found.jsonl
    kafkafs erase --records found.jsonl --manifest case.json /disks/* /srv/erased
    kafkafs erase --verify case.json /srv/erased

    The result is searched for the keys and values of the erased records and for each TEXT: decoded, as bytes, in
    Base64, hex and UTF-16. What it finds, copies that no SOURCE has, and bytes that cannot be read are named. Records of
    Kafka's own topics are erased only if --topic names the topic; they are searched all the same.

    Exit status: 0 erased, and nothing is left, 1 not done: something is left or may be (see the output), no record is
    chosen, or TARGET differs from MANIFEST, 2 refused, 3 cannot read.
    """
    if given["manifest_to_verify"] is not None:
        if plans or len(paths) != 1:
            raise click.UsageError("--verify takes one TARGET")
        _verify(given["manifest_to_verify"], paths[0], as_json=given["as_json"])
        return
    chosen_by = [given["condition"] is not None, bool(given["keys"]), given["records"] is not None]
    if sum(chosen_by) != 1:
        raise click.UsageError("choose the records with one of --where, --key and --records")
    sources, target = (paths, None) if plans else (paths[:-1], paths[-1])
    if not sources:
        raise click.UsageError("name at least one SOURCE and a TARGET (or --plan)")
    named = source_paths(sources)
    with _proof(given, named, plans=plans) as write_proof:
        result = _erased(named, target, given)
        if target is not None:
            write_proof(result)
    if given["as_json"]:
        click.echo(json_text(result.report))
    else:
        from kafkafs.cli.printing.erase_report import print_erase

        print_erase(result.report, result.target)
    if not result.report["isClean"]:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _erased(paths: list[str], target: str | None, given: dict[str, Any]) -> Erased:
    from engine.erase.erasing import NothingChosenError, erase as run
    from engine.rebuild.errors import RebuildRefusedError

    for path in paths:
        detail(f"reading {path}")
    logging.getLogger(engine.__name__).addHandler(logging.NullHandler())
    with ExitStack() as stack:
        try:
            choose = _choice(paths, given, stack)
            stack.enter_context(stoppable())
            progress = stack.enter_context(StepProgress())
            return run(
                paths,
                target,
                choose,
                texts=[os.fsencode(text) for text in given["texts"]],
                drops_damage=given["damaged"] == "drop",
                facts=_circumstances(given),
                advance=progress.advance,
            )
        except NothingChosenError as error:
            say(printable(f"kafkafs: {error.reason}: {error.hint}"), err=True)
            raise click.exceptions.Exit(EXIT_FINDINGS) from None
        except RebuildRefusedError as error:
            raise click.UsageError(printable(f"{error.reason}: {error.hint}")) from None


def _choice(paths: list[str], given: dict[str, Any], stack: ExitStack) -> RecordChoice:
    """Return what chooses the records; what it opens is closed with the stack."""
    from engine.replicas.cluster_source import open_cluster
    from kafkafs.cli.options.conditions import condition_of
    from kafkafs.cli.options.record_choice import (
        ChosenByKey,
        ChosenByOffset,
        ChosenByWhere,
        read_offsets,
    )
    from kafkafs.schemas.sources.known_schemas import KnownSchemas

    choice: PartitionChoice = given["choice"]
    cluster = open_cluster(paths)
    stack.callback(cluster.close)
    require_choice(choice, cluster.partitions())
    if given["records"] is not None:
        return ChosenByOffset(choice, read_offsets(given["records"]))
    known = KnownSchemas(cluster, given["schemas"])
    if given["keys"]:
        return ChosenByKey(choice, given["keys"], given["key_format"], known)
    where = stack.enter_context(condition_of(given["condition"], 1))
    assert where is not None
    return ChosenByWhere(choice, where, known)


def _circumstances(given: dict[str, Any]) -> dict[str, Any]:
    """Return who erases and how the records are chosen; not what chooses them, which names the person."""
    from kafkafs.process_facts import host_and_user

    by = "where" if given["condition"] is not None else "keys" if given["keys"] else "records"
    choice: PartitionChoice = given["choice"]
    return {
        **host_and_user(),
        "choice": {
            "by": by,
            "keys": len(given["keys"]),
            "topics": [each.text for each in choice.topics],
            "partitions": [each.text for each in choice.partitions],
            "scannedTexts": len(given["texts"]),
            "damaged": given["damaged"],
        },
    }


@contextmanager
def _proof(
    given: dict[str, Any], sources: list[str], *, plans: bool
) -> Iterator[Callable[[Erased], None]]:
    """Yield what writes the manifest to keep, and signs it."""
    from engine.rebuild.errors import RebuildRefusedError
    from engine.rebuild.target.staging import refuse_target

    path, key = given["manifest"], given["signing_key"]
    if key is not None and path is None:
        raise click.UsageError("--sign signs the file of --manifest: name one")
    if path is None:
        yield lambda _: None
        return
    if plans:
        raise click.UsageError("--plan writes nothing: leave out --manifest")
    for each in (path, *([] if key is None else [f"{path}.sig"])):
        try:
            refuse_target(each, sources)
        except RebuildRefusedError as error:
            raise click.BadParameter(str(error), param_hint="--manifest") from None
    if key is not None and (shutil.which(_KEYGEN) is None or not os.path.isfile(key)):
        raise click.BadParameter(f"{key} is no file, or there is no {_KEYGEN}", param_hint="--sign")
    with StagedFile(path) as file:

        def write(result: Erased) -> None:
            from engine.rebuild.target.manifest import render_manifest

            file.write(render_manifest(result.report))
            file.appear(0o444)
            if key is not None:
                _sign(path, key)

        yield write


def _sign(path: str, key: str) -> None:
    command = [_KEYGEN, "-q", "-Y", "sign", "-f", key, "-n", _NAMESPACE, path]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise click.ClickException(printable(f"{path} is not signed: {''.join(reason)}"))


def _verify(path: str, target: str, *, as_json: bool) -> None:
    from engine.disk.disk import DISK
    from engine.erase.verifying import verify
    from engine.rebuild.target.manifest import parse_manifest

    found = list(verify(parse_manifest(DISK.read(path), path=path), target))
    for each in found:
        if as_json:
            click.echo(json_text(each._asdict()))
        else:
            say(printable(f"{each.path}: {each.reason}"))
    if found:
        raise click.exceptions.Exit(EXIT_FINDINGS)
    if not as_json:
        say(printable(f"{target} matches its manifest, and no erased record is in it"))
