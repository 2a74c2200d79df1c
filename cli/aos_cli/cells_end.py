"""End or remove instances, for ``aos cells end`` and ``remove`` (spec/cli.md, C-26b, C-26c)."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from aos.audit.lens.lookup import find_cell, find_workflow
from aos.audit.lens.words import count
from aos.audit.views.view import View
from aos.core.decide.answers import Admitted, Answer, Refusal
from aos.core.journal.inputs import REMOVE
from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.errors import BadUsage, Refused
from aos.manifest.effective import Effective
from aos_cli.cell_commands import Answered, command_each
from aos_cli.cell_names import cell_document, cell_text
from aos_cli.open_view import looking_at
from aos_cli.output import line, note, print_json

CELLS_SHOWN: Final = 20
REFUSALS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The operator's command, and the instances that it is for."""

    action: str
    status: str | None
    why: str | None
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


@dataclass(frozen=True, slots=True)
class _Found:
    """An instance as it was when the world was read; ``cell`` is None if there is none."""

    id: CellId
    cell: Cell | None


def carry_out(world: Path, order: Order, *, dry_run: bool, json: bool) -> int:
    """List the instances, or end them and print the answers; return the exit code."""
    order.check()
    with looking_at(world) as view:
        manifest = view.state.manifest
        found = _chosen(view, order)
        if dry_run:
            _list(order, found, manifest, json=json)
            return 0
    ended = command_each(
        world,
        order.action,
        [each.id for each in found],
        doing="ending",
        status=order.status,
        why=order.why,
    )
    refused = [each.answer for each in ended if isinstance(each.answer, Refusal)]
    if order.is_one and refused:
        raise Refused(refused[0].message)
    if json:
        print_json(_document(order, ended, manifest))
    else:
        _show(order, ended, manifest)
    return Refused.exit_code if refused else 0


# The instances


def _chosen(view: View, order: Order) -> list[_Found]:
    """The named instances, or those of a pattern or of the whole workflow that are not over."""
    if order.pattern is None and not order.is_all:
        ids = [find_cell(view.state, order.workflow, key) for key in order.keys or (None,)]
        return [_Found(id, view.state.cells.get(id)) for id in dict.fromkeys(ids)]
    name = find_workflow(view.state, order.workflow)
    return [
        _Found(cell.id, cell)
        for cell in view.state.cells.of(name)
        if (order.action == REMOVE or not _is_over(cell))
        and (order.pattern is None or fnmatchcase(_key(view, cell), order.pattern))
    ]


def _is_over(cell: Cell) -> bool:
    return cell.declared is not None and cell.is_at_rest


def _key(view: View, cell: Cell) -> str:
    return view.lens.key_text(cell.id, hash=cell.workflow_hash)


def _list(order: Order, found: list[_Found], manifest: Effective | None, *, json: bool) -> None:
    """Print the instances that the command would end."""
    known = [(each.id, each.cell) for each in found if each.cell is not None]
    missing = [each.id for each in found if each.cell is None]
    if missing:
        names = ", ".join(cell_text(id, manifest) for id in missing[:REFUSALS_SHOWN])
        raise Refused(f"there is no such cell: {names}: nothing has reached it, or it was deleted")
    mail = sum(len(cell.mailbox) for _, cell in known)
    open_ones = sum(len(cell.inflight) for _, cell in known)
    if json:
        rows = [
            {
                **cell_document(id, manifest),
                "status": cell.status,
                "dropped": len(cell.mailbox),
                "abandoned": len(cell.inflight),
            }
            for id, cell in known
        ]
        print_json({**_head(order), "dry_run": True, "total": len(known), "cells": rows})
        return
    would = "would be removed" if order.action == REMOVE else f"would end as {order.status}"
    line(f"{count(len(known), 'instance')} {would}: {_work(open_ones, mail)}")
    for id, cell in known[:CELLS_SHOWN]:
        text = f"{cell.status}, {_work(len(cell.inflight), len(cell.mailbox))}"
        line(f"  {cell_text(id, manifest)} · {text}")
    if len(known) > CELLS_SHOWN:
        line(f"  and {len(known) - CELLS_SHOWN:,} more (--json lists them all)")


def _work(open_ones: int, mail: int) -> str:
    return f"{count(open_ones, 'open effect')}, {count(mail, 'event')} in the mailbox"


# The commands


def _head(order: Order) -> dict[str, object]:
    return {"action": order.action, "status": order.status, "why": order.why}


def _document(order: Order, ended: list[Answered], manifest: Effective | None) -> dict[str, object]:
    refused = sum(isinstance(each.answer, Refusal) for each in ended)
    return {
        **_head(order),
        "dry_run": False,
        "admitted": len(ended) - refused,
        "refused": refused,
        "cells": [{**cell_document(each.cell, manifest), **_result(each.answer)} for each in ended],
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


def _show(order: Order, ended: list[Answered], manifest: Effective | None) -> None:
    if not ended:
        has = "" if order.action == REMOVE else " that has not ended"
        line(f"{order.workflow} has no such instance{has}")
        return
    done = [each for each in ended if isinstance(each.answer, Admitted)]
    answers = [each.answer for each in ended if isinstance(each.answer, Admitted)]
    refused = [(each.cell, each.answer) for each in ended if isinstance(each.answer, Refusal)]
    for id, answer in refused[:REFUSALS_SHOWN]:
        note(f"aos: {cell_text(id, manifest)}: {answer.message}", style="red")
    if len(refused) > REFUSALS_SHOWN:
        note(f"and {len(refused) - REFUSALS_SHOWN:,} more were refused (--json lists them all)")
    what = "removed" if order.action == REMOVE else f"ended as {order.status}"
    who = cell_text(done[0].cell, manifest) if order.is_one else count(len(done), "instance")
    text = f"{who} {what}"
    if refused:
        text += f", {len(refused):,} refused"
    if answers:
        text += _records([each.seq for each in answers])
    line(text)
    open_ones = sum(each.abandoned for each in answers)
    mail = sum(each.dropped for each in answers)
    if open_ones:
        line(f"  {count(open_ones, 'open effect')} canceled: no instance waits for a receipt")
        note("an effect may have run all the same; only its executor knows")
    if mail:
        line(f"  {count(mail, 'event')} in the mailbox dropped")


def _records(seqs: list[int]) -> str:
    first, last = seqs[0], seqs[-1]
    return f" (record {first:,})" if len(seqs) == 1 else f" (records {first:,} to {last:,})"
