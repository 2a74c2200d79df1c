"""End or remove instances, for ``aos cells end`` and ``remove`` (spec/cli.md, C-26b, C-26c)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.core.decide.answers import Admitted, Answer, Refusal
from aos.core.journal.inputs import REMOVE
from aos.errors import BadUsage, Refused
from aos.host.package_checks import OWN_COMMANDS
from aos.read.lens.words import count
from aos_cli import chosen_cells
from aos_cli.chosen_cells import Answered, ChosenCell, command_each
from aos_cli.output import line, note, print_json

CELLS_SHOWN: Final = 20
REFUSALS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The operator's command, and the instances that it is for."""

    action: str
    status: str | None
    reason: str | None
    workflow: str
    keys: tuple[str, ...]
    pattern: str | None
    is_all: bool

    @property
    def is_one(self) -> bool:
        return self.pattern is None and not self.is_all and len(self.keys) < 2

    def check(self) -> None:
        ways = (bool(self.keys), self.pattern is not None, self.is_all)
        if sum(ways) > 1:
            raise BadUsage(
                f"cells {self.action}: expected WORKFLOW KEY…, or WORKFLOW with --pattern GLOB or "
                f"with --all (see aos cells {self.action} --help)"
            )


def carry_out(world: Path, node: str | None, order: Order, *, dry_run: bool, json: bool) -> int:
    """List the instances, or end them and print the answers; return the exit code."""
    order.check()
    instances = _instances_of(world, node, order)
    if dry_run:
        _list(order, instances, json=json)
        return 0
    ended = command_each(
        world,
        node,
        order.action,
        [instance.cell for instance in instances],
        doing="ending",
        status=order.status,
        reason=order.reason,
    )
    refused = [outcome.answer for outcome in ended if isinstance(outcome.answer, Refusal)]
    if order.is_one and refused:
        raise Refused(refused[0].message)
    if json:
        print_json(_document(order, ended))
    else:
        _show(order, ended)
    return Refused.exit_code if refused else 0


# The instances


def _instances_of(world: Path, node: str | None, order: Order) -> list[ChosenCell]:
    """The named instances, or those of a pattern or of the whole workflow that are not over."""
    if order.pattern is None and not order.is_all:
        return chosen_cells.keyed(world, node, order.workflow, order.keys or (None,))
    return chosen_cells.matching(
        world, node, order.workflow, order.pattern, ended=order.action == REMOVE
    )


def _list(order: Order, instances: list[ChosenCell], *, json: bool) -> None:
    """Print the instances that the command would end."""
    missing = [instance.cell.text for instance in instances if instance.status is None]
    if missing:
        names = ", ".join(missing[:REFUSALS_SHOWN])
        raise Refused(f"there is no such cell: {names}: no event has reached it, or it was deleted")
    mail = sum(instance.mail for instance in instances)
    open_ones = sum(instance.open_effects for instance in instances)
    if json:
        rows = [
            {
                **instance.cell.document,
                "status": instance.status,
                "dropped": instance.mail,
                "abandoned": instance.open_effects,
            }
            for instance in instances
        ]
        print_json({**_head(order), "dry_run": True, "total": len(instances), "cells": rows})
        return
    would = "would be removed" if order.action == REMOVE else f"would end as {order.status}"
    line(f"{count(len(instances), 'instance')} {would}: {_work(open_ones, mail)}")
    for instance in instances[:CELLS_SHOWN]:
        text = f"{instance.status}, {_work(instance.open_effects, instance.mail)}"
        line(f"  {instance.cell.text} · {text}")
    if len(instances) > CELLS_SHOWN:
        line(f"  and {len(instances) - CELLS_SHOWN:,} more (--json lists them all)")
    for workflow in sorted(
        {instance.cell.workflow for instance in instances} & OWN_COMMANDS.keys()
    ):
        note(f"{workflow} belongs to a package: what still runs ends by {OWN_COMMANDS[workflow]}")


def _work(open_ones: int, mail: int) -> str:
    return f"{count(open_ones, 'open effect')}, {count(mail, 'event')} in the mailbox"


# The commands


def _head(order: Order) -> dict[str, object]:
    return {"action": order.action, "status": order.status, "why": order.reason}


def _document(order: Order, ended: list[Answered]) -> dict[str, object]:
    refused = sum(isinstance(outcome.answer, Refusal) for outcome in ended)
    return {
        **_head(order),
        "dry_run": False,
        "admitted": len(ended) - refused,
        "refused": refused,
        "cells": [{**outcome.cell.document, **_result(outcome.answer)} for outcome in ended],
    }


def _result(answer: Answer) -> dict[str, object]:
    if isinstance(answer, Admitted):
        return {
            "seq": answer.seq,
            "dropped": answer.dropped,
            "abandoned": answer.abandoned,
            "refused": None,
        }
    assert isinstance(answer, Refusal), "a command has no duplicate"
    refused = {"rule": answer.rule.value, "message": answer.message}
    return {"seq": None, "dropped": None, "abandoned": None, "refused": refused}


def _show(order: Order, ended: list[Answered]) -> None:
    if not ended:
        has = "" if order.action == REMOVE else " that has not ended"
        line(f"{order.workflow} has no such instance{has}")
        return
    admitted = [outcome for outcome in ended if isinstance(outcome.answer, Admitted)]
    answers = [outcome.answer for outcome in ended if isinstance(outcome.answer, Admitted)]
    refused = [
        (outcome.cell, outcome.answer) for outcome in ended if isinstance(outcome.answer, Refusal)
    ]
    for cell, answer in refused[:REFUSALS_SHOWN]:
        note(f"aos: {cell.text}: {answer.message}", style="red")
    if len(refused) > REFUSALS_SHOWN:
        note(f"and {len(refused) - REFUSALS_SHOWN:,} more were refused (--json lists them all)")
    verb = "removed" if order.action == REMOVE else f"ended as {order.status}"
    who = admitted[0].cell.text if order.is_one else count(len(admitted), "instance")
    text = f"{who} {verb}"
    if refused:
        text += f", {len(refused):,} refused"
    if answers:
        text += _records([admission.seq for admission in answers])
    line(text)
    open_ones = sum(admission.abandoned for admission in answers)
    mail = sum(admission.dropped for admission in answers)
    if open_ones:
        line(f"  {count(open_ones, 'open effect')} canceled: no instance waits for a receipt")
        note("a canceled effect may have run already; only its executor can tell")
    if mail:
        line(f"  {count(mail, 'event')} in the mailbox dropped")


def _records(seqs: list[int]) -> str:
    first, last = seqs[0], seqs[-1]
    return f" (record {first:,})" if len(seqs) == 1 else f" (records {first:,} to {last:,})"
