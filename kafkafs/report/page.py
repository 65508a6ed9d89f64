"""The page: facts in, one file of HTML out, which needs no network and no script to be read.

Every name comes from a source that may be hostile. So the template escapes all text, and the page forbids its reader's
browser to load anything, and to run or apply anything but its own script and style (Content-Security-Policy).
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

import jinja2

from engine.check.rules.rules import RULES
from engine.json_facts import facts_of
from kafkafs import amounts
from kafkafs.decode.shown_text import printable_lines
from kafkafs.disk_words import bounds_text, kind_name
from kafkafs.loss_words import loss_table
from kafkafs.report import pictures
from kafkafs.report.axes import Axis
from kafkafs.report.facts import RuleFindings, SourceFacts
from kafkafs.report.heat_map import heat_map
from kafkafs.report.offset_curves import curves
from kafkafs.report.partition_facts import TopicFacts
from kafkafs.report.recovery_rows import (
    HEADER,
    recovery_evidence,
    recovery_row,
    recovery_verdict,
)
from kafkafs.report.treemap import treemap
from kafkafs.report.verdict import verdict

MOST_TOPICS = 300
MOST_CHANGED_LOGS = 300
MOST_OPEN_ROWS = 200
MOST_LOSSES = 300
MOST_GOING = 100
_SEVERITIES = ("error", "warning", "note")


def page(facts: SourceFacts) -> str:
    """Return the page."""
    style, script = _text("page.css"), _text("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}';"
        " base-uri 'none'; form-action 'none'"
    )
    return _template().render(
        facts=facts,
        policy=policy,
        style=style,
        script=script,
        verdict=verdict(facts),
        **_charts(facts),
        **_disk_parts(facts),
    )


def _charts(facts: SourceFacts) -> dict[str, Any]:
    """Return what the template draws."""
    facts.partitions.sort(key=lambda each: (each.place, each.name))
    rate = pictures.rate(facts.times)
    span = None if rate is None else rate.picture.axis
    lanes = pictures.lanes_of(facts.partitions)
    topics = sorted(facts.topics.values(), key=lambda each: (-each.size, each.name))
    damaged = sum(len(each.damaged) for each in facts.partitions)
    codecs = sorted(facts.codecs.items(), key=lambda item: -item[1].size)
    heat = heat_map(facts)
    return {
        "rate": rate,
        "heat": heat,
        "heat_picture": None if heat is None else heat.picture(),
        "curves": curves(facts),
        "by_time": pictures.by_time(lanes, span),
        "by_offset": pictures.by_offset(lanes),
        "strips": pictures.strips(facts.partitions),
        "damaged_files": damaged,
        "losses": loss_table(facts.losses[:MOST_LOSSES]) if facts.losses else None,
        "map": pictures.partition_map(facts.partitions),
        "topics": topics[:MOST_TOPICS],
        "sparks": {each.name: _spark(each, span) for each in topics[:MOST_TOPICS]},
        "codecs": codecs,
        "most_codec": max((counts.size for _, counts in codecs), default=1) or 1,
        "sizes": pictures.histogram(facts.batch_sizes, "bytes"),
        "records": pictures.histogram(facts.batch_records, "records"),
        "rules": sorted(facts.rules.values(), key=_rule_order),
        "changed": sorted(facts.start.changed, key=lambda each: -each.losses.bytes),
        "groups": sorted(facts.groups or (), key=lambda each: (-(each.lag or 0), each.name)),
        **_recovery(facts.recovery),
        "most_changed": MOST_CHANGED_LOGS,
        "node_lines": [*facts.start.lost_folders, *facts.start.risks],
        "most_open": MOST_OPEN_ROWS,
    }


def _recovery(report: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the part on a recovery of the cluster shows."""
    if report is None:
        return {"recovery": None}
    return {
        "recovery": recovery_verdict(report),
        "recovery_header": HEADER,
        "recovery_rows": [recovery_row(each) for each in report["partitions"]],
        "recovery_lines": list(recovery_evidence(report)),
    }


def _disk_parts(facts: SourceFacts) -> dict[str, Any]:
    """Return what the part on the disk draws."""
    disk = facts.disk
    if disk is None:
        return {"disk": None}
    kinds = disk.by_kind()
    return {
        "disk": disk,
        "treemap": treemap(disk.folders),
        "kinds": [(kind_name(kind.value), total) for kind, total in kinds],
        "going": disk.next_to_go(),
        "most_going": MOST_GOING,
    }


def _spark(topic: TopicFacts, span: Axis | None) -> str:
    return "" if span is None else pictures.spark(topic.times, span)


def _rule_order(rule: RuleFindings) -> tuple[int, int, str]:
    return _SEVERITIES.index(rule.severity), -rule.number, rule.rule


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_text),
        finalize=_shown,
    )
    environment.filters |= {
        **facts_of(
            amounts,
            "number=count bytes=size large ratio time minute counted unquoted=without_quotes",
        ),
        "kind": kind_name,
        "bounds": bounds_text,
    }
    environment.globals |= {"RULES": RULES}
    return environment.get_template("page.html.j2")


def _shown(value: object) -> object:
    """Return a value as the template prints it: names without characters that a reader cannot see."""
    if type(value) is str:
        return printable_lines(value)
    return amounts.NONE if value is None else value


def _text(name: str) -> str:
    return files("kafkafs.report").joinpath("assets", name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
