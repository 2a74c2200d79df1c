"""Every command: its panel in ``aos --help``, its help in one line, examples, and its function.

Listing the commands imports nothing. A command's module, and with it the parts of the kernel
that it uses, is imported when that command is called (spec/cli.md, C-12).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final, NamedTuple

from aos.errors import BadUsage

RUN: Final = "Run"
LOOK: Final = "Look"
PROVE: Final = "Prove"
CARRY: Final = "Carry"
AUTHOR: Final = "Author"
PANELS: Final = (RUN, LOOK, PROVE, CARRY, AUTHOR)


class Command(NamedTuple):
    """``path`` is the words after ``aos``; ``function`` is ``module:name`` in ``commands``."""

    path: str
    panel: str
    help: str
    examples: tuple[str, ...]
    function: str = ""
    """Empty for a group. The path of a group's command begins with the group's path; so does that
    of a command below another command, such as ``checkpoint status`` below ``checkpoint``."""

    is_writing: bool = False
    """Of a command of an extension: whether it opens a world through ``open_writing``."""

    is_builtin: bool = True
    """Whether ``function`` is in ``commands``; the module of an extension has its whole name."""

    package: str = ""
    """Name and version of the package that registers it; empty for a command of aos."""

    @property
    def name(self) -> str:
        return self.path.rpartition(" ")[2]

    @property
    def is_group(self) -> bool:
        return not self.function

    def load(self) -> Any:
        """Import the function behind the command.

        Raises:
            BadUsage: The package that registers it fails to import it.
        """
        module, _, name = self.function.partition(":")
        folder = "aos_cli.commands." if self.is_builtin else ""
        try:
            return getattr(import_module(f"{folder}{module}"), name)
        except Exception as problem:
            if not self.package:
                raise
            # Few commands are those of an extension.
            from aos.extensions import import_failure  # noqa: PLC0415

            raise BadUsage(
                f"{self.path}: a command of the package {self.package}: {import_failure(problem)}"
            ) from problem


_HASH: Final = "blake3:14c6b26b8d2f06f21b2c8d731d0ea008787e9588d9ecd9e0f36a15c46b671e4b"

WRITING: Final = frozenset(
    {
        *("apply", "send", "snapshot", "gc", "erase", "clock"),
        *("cells retry", "cells unpin", "cells end", "cells remove"),
        *("effects cancel", "effects settle", "linear start", "linear wake", "linear cancel"),
        *("schedule create", "schedule pause", "schedule resume", "schedule trigger"),
        "schedule delete",
        *("flow start", "flow signal", "flow cancel", "flow resume"),
        *("gov propose", "gov approve", "gov reject", "gov withdraw", "gov submit", "gov apply"),
        "gov shadow",
    }
)
"""The paths of commands that open a world through ``open_writing``. Two of them, ``flow start`` and
``linear start``, have a ``--timeout`` of their own, for what they wait for afterwards."""

ADDRESSED: Final = frozenset(
    {
        *("apply", "send", "snapshot", "flow start", "flow signal"),
        *("cells retry", "cells unpin", "cells end", "cells remove"),
        *("effects cancel", "effects settle", "effects retry"),
    }
)
"""The paths of commands that take the address of a replicated world in the place of a folder."""

FRESH: Final = frozenset(
    {
        *("inspect world", "inspect manifest", "inspect cells", "inspect cell", "inspect intents"),
        *("inspect intent", "inspect faults", "inspect journal", "inspect record", "inspect value"),
        *("trace", "verify", "replay", "export", "fork", "gov list", "gov show"),
        *("flow list", "flow show", "linear list", "linear show", "linear plans"),
        *("schedule list", "schedule show"),
        *("cells retry", "cells unpin", "cells end", "cells remove"),
        *("effects cancel", "effects settle", "effects retry"),
    }
)
"""The paths of commands that can wait until the folder of a node has everything that its world has
acknowledged."""

COMMANDS: Final = (
    Command(
        "init", RUN, "Create a world: a folder with its keys and an empty journal.",
        ("aos init shop", "aos init shop --shards 4"), "init:init",
    ),
    Command(
        "apply", RUN, "Validate a manifest, show its changes, and put it in force.",
        ("aos apply . --dry-run", "aos apply . --mode pin"),
        "apply:apply",
    ),
    Command(
        "gov", RUN, "Propose manifests, vote on them, and apply those that are approved.",
        ("aos gov propose .", "aos gov approve 810 --key ann.key"),
    ),
    Command(
        "gov patch", RUN, "Print the change from the manifest in force to another one.",
        ("aos gov patch . > change.json",), "gov:patch",
    ),
    Command(
        "gov propose", RUN, "Propose a manifest, for the approvers to vote on.",
        (
            "aos gov propose . --note 'retries twice'",
            "aos gov propose --patch change.json --mode pin --key ann.key",
        ),
        "gov:propose",
    ),
    Command(
        "gov list", RUN, "List proposals, with the votes on each.",
        ("aos gov list",), "gov:list_proposals",
    ),
    Command(
        "gov show", RUN, "Show a proposal: its votes, its changes and its blockers.",
        ("aos gov show 810",), "gov:show",
    ),
    Command(
        "gov shadow", RUN, "Show what a proposal would have done to recorded history.",
        ("aos gov shadow 810", "aos gov shadow 810 --all --record"), "gov_shadow:shadow",
    ),
    Command(
        "gov approve", RUN, "Approve a proposal, as an approver.",
        (
            "aos gov approve 810 --key ann.key",
            "aos gov approve 810 --key ann.key --bundle shop.aos --out vote.json",
        ),
        "gov_votes:approve",
    ),
    Command(
        "gov reject", RUN, "Reject a proposal, as an approver.",
        ("aos gov reject 810 --key ann.key --note 'too early'",), "gov_votes:reject",
    ),
    Command(
        "gov withdraw", RUN, "Withdraw a proposal, as the one who proposed it.",
        ("aos gov withdraw 810",), "gov_votes:withdraw",
    ),
    Command(
        "gov submit", RUN, "Submit votes that were signed away from the world.",
        ("aos gov submit ann.json bob.json",), "gov_votes:submit",
    ),
    Command(
        "gov apply", RUN, "Apply an approved proposal.",
        ("aos gov apply 810",), "gov:apply",
    ),
    Command(
        "send", RUN, "Send events, and print their record numbers once they are durable.",
        (
            """aos send shop/OrderCancelRequested@1 '{"order_id": "o-1"}' --id cancel-o-1""",
            "aos send --jsonl orders.jsonl",
            "aos send --jsonl cards.jsonl --seal cards.keyring",
        ),
        "send:send",
    ),
    Command(
        "run", RUN, "Run a world in the foreground until Ctrl-C, or until it is idle.",
        ("aos run --until-idle --executors effects.py:shop",), "run:run",
    ),
    Command(
        "node", RUN, "Run a world and serve it over HTTP, until Ctrl-C.",
        (
            "aos node --executors effects.py:shop",
            "aos node --listen 0.0.0.0:7460 --tls-cert cert.pem --tls-key key.pem",
            "aos node --worlds worlds --idle 10m",
        ),
        "node:node",
    ),
    Command(
        "world", RUN, "Create the worlds of a node with many; list, stop and remove them.",
        ("aos world create shop --node worlds", "aos world list --node worlds"),
    ),
    Command(
        "world create", RUN, "Create a world in the folder of a node.",
        ("aos world create shop --node worlds",), "world:create",
    ),
    Command(
        "world list", RUN, "List the worlds: which run, and when the others wake.",
        ("aos world list --node worlds",), "world:list_worlds",
    ),
    Command(
        "world start", RUN, "Start a world, also one that was stopped.",
        ("aos world start shop --node worlds",), "world:start",
    ),
    Command(
        "world stop", RUN, "Stop a world: nothing starts it, until aos world start.",
        ("aos world stop shop --node worlds",), "world:stop",
    ),
    Command(
        "world remove", RUN, "Remove a stopped world with its journal and its keys.",
        ("aos world remove shop --yes --node worlds",), "world:remove",
    ),
    Command(
        "cluster", RUN, "Run the servers of worlds on several machines, and keep their nodes.",
        ("aos cluster up servers", "aos cluster base --world shop"),
    ),
    Command(
        "cluster up", RUN, "Run three NATS servers on this machine until Ctrl-C.",
        ("aos cluster up servers", "aos cluster up servers --port 4222"),
        "cluster:up",
    ),
    Command(
        "cluster status", RUN, "Show the worlds of servers: the owner, standbys, log and lag.",
        ("aos cluster status", "aos cluster status nats://10.0.0.1,10.0.0.2,10.0.0.3/shop"),
        "cluster_status:status",
    ),
    Command(
        "cluster check", RUN, "Check servers and their worlds; say what to change.",
        ("aos cluster check", "aos cluster check nats://10.0.0.1 --monitor http://10.0.0.1:8222"),
        "cluster_check:check",
    ),
    Command(
        "cluster serve", RUN, "Run this machine's share of all worlds of servers until Ctrl-C.",
        ("aos cluster serve worlds --store nats://10.0.0.1 --name m1 --keys keys --standbys 2",),
        "cluster_serve:serve",
    ),
    Command(
        "cluster move", RUN, "Move a world to another of its nodes.",
        ("aos cluster move shop --to b", "aos cluster move shop --undo"), "cluster_move:move",
    ),
    Command(
        "cluster drain", RUN, "Move all worlds of a member away, or let it take its share again.",
        ("aos cluster drain m1", "aos cluster drain m1 --undo"), "cluster_move:drain",
    ),
    Command(
        "cluster base", RUN, "Write a new base for nodes that join, and trim the log to it.",
        ("aos cluster base --world shop",), "cluster_folders:base",
    ),
    Command(
        "cluster restore", RUN,
        "Replace a log that has lost records, by one from the folder with the most.",
        ("aos cluster restore shop --from shop",), "cluster_folders:restore",
    ),
    Command(
        "cluster forget", RUN, "Remove the folder of a node whose records the servers have.",
        ("aos cluster forget shop --yes",), "cluster_folders:forget",
    ),
    Command(
        "join", RUN, "Create another node of a replicated world, from its newest base and log.",
        ("aos join nats://10.0.0.1,10.0.0.2,10.0.0.3/shop shop --keys keys",
         "aos join nats://10.0.0.1/shop shop --keys keys --node b --unverified-durability"),
        "join:join",
    ),
    Command(
        "cells", RUN, "Resume instances, or unpin, end or remove them.",
        ("aos cells retry order o-1", "aos cells end order o-1 --why 'ordered twice'"),
    ),
    Command(
        "cells retry", RUN, "Resume failed instances: run the failed entry again, or skip it.",
        ("aos cells retry order o-1", "aos cells retry --all-failed --workflow order"),
        "cells:retry",
    ),
    Command(
        "cells unpin", RUN, "Move pinned instances to the manifest in force.",
        ("aos cells unpin order o-1",), "cells:unpin",
    ),
    Command(
        "cells end", RUN, "End instances: drop their mail, and cancel their open effects.",
        (
            "aos cells end order o-1 o-2 --why 'ordered twice'",
            "aos cells end order --pattern 'test-*' --dry-run",
        ),
        "cells:end",
    ),
    Command(
        "cells remove", RUN, "Remove instances with their state, their mail and open effects.",
        ("aos cells remove order o-1", "aos cells remove order --all --dry-run"),
        "cells:remove",
    ),
    Command(
        "flow", RUN, "Run flows: start, signal, cancel, resume, list and show them.",
        ("""aos flow start order '{"order_id": "o-1"}' --wait""", "aos flow show order o-1"),
    ),
    Command(
        "flow start", RUN, "Send a flow its input, which starts it once for each key.",
        (
            """aos flow start order '{"order_id": "o-1"}'""",
            """aos flow start order '{"order_id": "o-1"}' --wait --timeout 30s""",
        ),
        "flow:start",
    ),
    Command(
        "flow signal", RUN, "Send a message to a flow; its key field is filled in.",
        ("aos flow signal order o-1 Cancel '{}' --id cancel-o-1",), "flow:signal",
    ),
    Command(
        "flow cancel", RUN, "Cancel a flow: run its compensations, then end it as canceled.",
        ("aos flow cancel order o-1", "aos flow cancel order o-1 --no-rollback"), "flow:cancel",
    ),
    Command(
        "flow resume", RUN, "Resume a flow that is stuck in its rollback or stopped by a fault.",
        ("aos flow resume order o-1", "aos flow resume order o-1 --skip"), "flow:resume",
    ),
    Command(
        "flow list", LOOK, "List the instances of flows: their status, and where they wait.",
        ("aos flow list --flow order --status stuck",), "flow:list_flows",
    ),
    Command(
        "flow show", LOOK, "Show one flow: its operations as a tree, and where it waits.",
        ("aos flow show order o-1", "aos flow show order o-1 --history"), "flow:show",
    ),
    Command(
        "effects", RUN, "Cancel or settle open effects, or run parked ones again.",
        ("aos effects retry --parked", "aos effects cancel 7b7cfd51842d"),
    ),
    Command(
        "effects settle", RUN, "Settle an open effect with a result that you give.",
        (
            """aos effects settle 7b7cfd51842d --ok '{"ref": "p-17"}'""",
            "aos effects settle 7b7cfd51842d --error bank_closed 'The bank is gone'",
        ),
        "effects:settle",
    ),
    Command(
        "effects retry", RUN, "Run held or parked effects again immediately.",
        ("aos effects retry --parked --code exception", "aos effects retry 7b7cfd51842d"),
        "effects:retry",
    ),
    Command(
        "effects cancel", RUN, "Cancel an open effect; a receipt that arrives later is refused.",
        ("aos effects cancel 7b7cfd51842d",), "effects:cancel",
    ),
    Command(
        "worker", RUN, "Run effects of a world on another machine.",
        ("aos worker --node https://shop.example:8443 effects.py:shop",), "worker:worker",
    ),
    Command(
        "linear", RUN, "Show instances of linear step plans; start, wake and cancel them.",
        ("aos linear start order.process --id i-1", "aos linear list --status RUNNING"),
    ),
    Command(
        "linear start", RUN, "Start an instance of a plan.",
        (
            """aos linear start order.process --id i-1 --context '{"order": "o-1"}'""",
            "aos linear start --plan plan.json --id i-2 --wait",
        ),
        "linear:start",
    ),
    Command(
        "linear list", RUN, "List instances.",
        (
            "aos linear list", "aos linear list --status FAILED",
            "aos linear list --count --group-by step",
        ),
        "linear:list_instances",
    ),
    Command(
        "linear show", RUN, "Show an instance: its plan steps, its context, and its next event.",
        ("aos linear show i-1",), "linear:show",
    ),
    Command(
        "linear wake", RUN, "Send a signal to an instance.",
        ("""aos linear wake i-1 PAID --event-id p-17 --payload '{"cents": 450}'""",),
        "linear:wake",
    ),
    Command(
        "linear cancel", RUN, "Cancel an instance.",
        ("aos linear cancel i-1 --reason 'ordered twice'",), "linear:cancel",
    ),
    Command(
        "linear plans", RUN, "List the plans of the manifest in force.",
        ("aos linear plans",), "linear:plans",
    ),
    Command(
        "schedule", RUN, "Create schedules, which emit events at the times of a calendar.",
        ("aos schedule list", "aos schedule show nightly"),
    ),
    Command(
        "schedule create", RUN, "Create a schedule.",
        (
            """aos schedule create nightly --cron '30 2 * * *' --tz Europe/Berlin \
  --event shop/Sweep@1 --value '{"days": 30}'""",
            "aos schedule create report --every 6h --plan report.make --overlap skip",
        ),
        "schedule:create",
    ),
    Command(
        "schedule list", RUN, "List schedules, each with its next time.",
        ("aos schedule list",), "schedule:list_schedules",
    ),
    Command(
        "schedule show", RUN, "Show a schedule: its next five times and its last runs.",
        ("aos schedule show nightly",), "schedule:show",
    ),
    Command(
        "schedule pause", RUN, "Pause a schedule. Times in a pause are not made up.",
        ("aos schedule pause nightly",), "schedule:pause",
    ),
    Command(
        "schedule resume", RUN, "End a pause.",
        ("aos schedule resume nightly",), "schedule:resume",
    ),
    Command(
        "schedule trigger", RUN, "Trigger a schedule: its event is emitted now, also in a pause.",
        ("aos schedule trigger nightly",), "schedule:trigger",
    ),
    Command(
        "schedule delete", RUN, "Delete a schedule.",
        ("aos schedule delete nightly",), "schedule:delete",
    ),
    Command(
        "batch", RUN, "Send a command or an event to each of many cells, through a node.",
        (
            "aos batch retry --workflow shop/order --dry-run",
            """aos batch send shop/OrderCancelRequested@1 '{"order_id": {"$cell": "key"}}' \
  --workflow shop/order --where 'customer_id = "c-1"'""",
        ),
    ),
    Command(
        "batch retry", RUN, "Resume failed cells, each with the entry that failed.",
        (
            "aos batch retry --workflow shop/order --dry-run",
            "aos batch retry --where 'fault = trap' --rate 50/s --wait",
        ),
        "batch:retry",
    ),
    Command(
        "batch skip", RUN, "Resume failed cells after the entry that failed.",
        ("aos batch skip --workflow shop/order --where 'amount_cents = 0'",), "batch:skip",
    ),
    Command(
        "batch unpin", RUN, "Run pinned cells under the manifest in force.",
        ("aos batch unpin --workflow shop/order --rate 100/s",), "batch:unpin",
    ),
    Command(
        "batch cancel-effects", RUN, "Cancel the open effects of cells.",
        (
            """aos batch cancel-effects --workflow shop/order \
  --where 'customer_id = "c-1"' --dry-run""",
            "aos batch cancel-effects --effect shop/charge --rate 20/s",
        ),
        "batch:cancel_effects",
    ),
    Command(
        "batch send", RUN, "Send an event for each cell of a workflow.",
        (
            """aos batch send shop/OrderCancelRequested@1 '{"order_id": {"$cell": "key"}}' \
  --workflow shop/order --where 'customer_id = "c-1"'""",
        ),
        "batch:send",
    ),
    Command(
        "batch list", RUN, "List batches, the newest first.", ("aos batch list",),
        "batch:list_batches",
    ),
    Command(
        "batch show", RUN, "Show a batch: its counts, and the items that were refused.",
        ("aos batch show b-1 --wait",), "batch:show",
    ),
    Command(
        "batch stop", RUN, "End a batch early. Items that are done stay done.",
        ("aos batch stop b-1",), "batch:stop",
    ),
    Command(
        "tasks", RUN, "Show the tasks of workers on other machines; release or retry them.",
        ("aos tasks list", "aos tasks retry --all-parked"),
    ),
    Command(
        "tasks list", RUN, "List the tasks that workers have, and those that wait.",
        ("aos tasks list",), "tasks:list_tasks",
    ),
    Command(
        "tasks release", RUN, "End the leases of tasks, so that another worker gets them.",
        ("aos tasks release 7b7cfd51842d",), "tasks:release",
    ),
    Command(
        "tasks retry", RUN, "Run held or parked tasks again.",
        ("aos tasks retry 7b7cfd51842d", "aos tasks retry --all-parked"), "tasks:retry",
    ),
    Command(
        "journal", RUN, "Move old records out of the journal.",
        ("aos journal prune --before newest",),
    ),
    Command(
        "journal prune", RUN,
        "Move the records before a snapshot into an archive, and compact the store.",
        ("aos journal prune --before newest",), "journal:prune",
    ),
    Command(
        "snapshot", RUN, "Write a snapshot of the world, so that a restart reads less.",
        ("aos snapshot",), "snapshot:snapshot",
    ),
    Command(
        "clock", RUN, "Show the journal clock, or set it back after a machine's clock was ahead.",
        ("aos clock", "aos clock --set"), "clock:clock",
    ),
    Command(
        "erase", RUN, "Erase the bytes of a value for good; every hash and signature stays valid.",
        (f"aos erase {_HASH}",),
        "erase:erase",
    ),
    Command(
        "gc", RUN, "Remove blobs that nothing needs any more, and old snapshots.",
        ("aos gc --dry-run",), "gc:gc",
    ),
    Command(
        "token", RUN, "Create tokens for the HTTP API of a node, list and revoke them.",
        ("aos token create web --scope 'send:shop/*' --scope read", "aos token list"),
    ),
    Command(
        "token create", RUN, "Create a token for HTTP, and print it once.",
        ("aos token create web --scope 'send:shop/*' --scope read --expires 90d",), "token:create",
    ),
    Command(
        "token list", RUN, "List the tokens: their scopes, and when they expire.",
        ("aos token list",), "token:list_tokens",
    ),
    Command(
        "token revoke", RUN, "Remove a token: a running node refuses it within a second.",
        ("aos token revoke web",), "token:revoke",
    ),
    Command(
        "demo", RUN, "Run 1,000 orders, kill the kernel half way, resume, and check everything.",
        ("aos demo", "aos demo --python", "aos demo shop --orders 100 --seed 3"), "demo:demo",
    ),
    Command(
        "inspect", LOOK, "Look into a world, also while another process runs it.",
        ("aos inspect world", "aos inspect cells --status failed"),
    ),
    Command(
        "inspect world", LOOK, "Show the world at a glance: journal, manifest, cells and effects.",
        ("aos inspect world", "aos inspect world --at 4711"), "inspect_world:inspect_world",
    ),
    Command(
        "inspect manifest", LOOK, "Show the manifest in force, or one of its definitions.",
        ("aos inspect manifest", "aos inspect manifest shop/order@1"),
        "inspect_world:inspect_manifest",
    ),
    Command(
        "inspect cells", LOOK, "List the cells, by workflow and key.",
        (
            "aos inspect cells --workflow order --status failed",
            "aos inspect cells --workflow order --count --group-by status",
        ),
        "inspect:inspect_cells",
    ),
    Command(
        "inspect cell", LOOK, "Show one cell: its state, open effects, mail, and why it waits.",
        ("aos inspect cell order o-1",), "inspect:inspect_cell",
    ),
    Command(
        "inspect intents", LOOK, "List the intents, by default those that are open.",
        ("aos inspect intents --effect stock.reserve --status all",), "inspect:inspect_intents",
    ),
    Command(
        "inspect intent", LOOK, "Show one intent: its parameters, attempts and receipt.",
        ("aos inspect intent 7b7cfd51842d",), "inspect:inspect_intent",
    ),
    Command(
        "inspect faults", LOOK, "List the failed instances, with the reason and the remedy.",
        ("aos inspect faults --kind trap",), "inspect:inspect_faults",
    ),
    Command(
        "inspect journal", LOOK, "List the records of the journal, oldest first.",
        ("aos inspect journal --kind fault --follow --json",), "inspect:inspect_journal",
    ),
    Command(
        "inspect record", LOOK, "Show one record of the journal in full.",
        ("aos inspect record 4711",), "inspect:inspect_record",
    ),
    Command(
        "inspect value", LOOK, "Show which records refer to a value, and whether it was erased.",
        (
            f"aos inspect value {_HASH}",
        ),
        "inspect:inspect_value",
    ),
    Command(
        "page", LOOK, "Look at worlds and bundles in a browser; the page changes nothing.",
        ("aos page shop --open", "aos page shop.aos"), "page:page",
    ),
    Command(
        "trace", LOOK, "Show the causes and effects of a record, an intent or a cell.",
        ("aos trace order o-1", "aos trace 4711"), "trace:trace",
    ),
    Command(
        "verify", PROVE, "Check the hash chain and every signature and hash; execute nothing.",
        ("aos verify", "aos verify shop.aos"), "verify:verify",
    ),
    Command(
        "replay", PROVE, "Execute every step again, and compare each record byte for byte.",
        ("aos replay", "aos replay --against build/orders.wasm"), "replay:replay",
    ),
    Command(
        "shadow", PROVE, "Show what the journal would have been under another manifest.",
        ("aos shadow .", "aos shadow . shop.aos --from 4711 --to 9000"), "shadow:shadow",
    ),
    Command(
        "audit", PROVE, "Write a report about the world that a person can read.",
        ("aos audit --out report.html", "aos audit shop.aos --replay --out report.json"),
        "audit:audit",
    ),
    Command(
        "rebuild", PROVE, "Rebuild the derived rows of the store from a valid journal.",
        ("aos rebuild",), "rebuild:rebuild",
    ),
    Command(
        "checkpoint", PROVE, "Write a signed checkpoint: the end of the log of all frames.",
        ("aos checkpoint --out shop.checkpoint", "aos checkpoint status"), "checkpoint:checkpoint",
    ),
    Command(
        "checkpoint status", PROVE,
        "Show how far checkpoints reach, and who holds one outside of the folder.",
        ("aos checkpoint status",), "checkpoint:status",
    ),
    Command(
        "proof", PROVE, "Write one file that proves a record, an effect or a cell to anyone.",
        ("aos proof 4711 --out record.json", "aos proof order o-1 --out order.json"),
        "proof:proof",
    ),
    Command(
        "verify-proof", PROVE, "Check a proof; it needs no world.",
        (f"aos verify-proof order.json --world {_HASH}",), "verify_proof:verify_proof",
    ),
    Command(
        "witness", PROVE, "Run a witness, which cosigns checkpoints of worlds over HTTP.",
        ("aos witness --listen 127.0.0.1:7461 --key witness.key --log VKEY",), "witness:witness",
    ),
    Command(
        "cosign", PROVE, "Cosign a checkpoint as a witness, without a server.",
        ("aos cosign shop.checkpoint --key witness.key --log VKEY",), "cosign:cosign",
    ),
    Command(
        "key", PROVE, "Create keys of approvers and witnesses, and show them.",
        ("aos key new alice.key",),
    ),
    Command(
        "key new", PROVE, "Create a secret key in a new file, and print its public half.",
        ("aos key new alice.key",), "key:new",
    ),
    Command(
        "key show", PROVE, "Show the public half of a key.",
        ("aos key show alice.key",), "key:show",
    ),
    Command(
        "keyring", RUN, "Create and change keyrings, which seal fields that workflows carry.",
        ("aos keyring new cards.keyring",),
    ),
    Command(
        "keyring new", RUN, "Create a keyring with one key in a new file.",
        ("aos keyring new cards.keyring",), "keyring:new",
    ),
    Command(
        "keyring rotate", RUN, "Add a key, which seals from now on; earlier keys still open.",
        ("aos keyring rotate cards.keyring",), "keyring:rotate",
    ),
    Command(
        "keyring show", RUN, "Show the ids of the keys, never the keys.",
        ("aos keyring show cards.keyring",), "keyring:show",
    ),
    Command(
        "keyring drop", RUN, "Remove a key; the file then opens no value that the key sealed.",
        ("aos keyring drop cards.keyring 9c0f5a1be3d27a44",), "keyring:drop",
    ),
    Command(
        "export", CARRY, "Write the world into one file: a bundle to verify, or an event log.",
        ("aos export shop.aos", "aos export shop.sqlite --format ocel"), "export:export",
    ),
    Command(
        "import", CARRY, "Create a world from a bundle; it runs once it is adopted.",
        ("aos import shop.aos copy",), "import_:import_",
    ),
    Command(
        "adopt", CARRY, "Allow an imported, forked or copied world to run here, or replicate it.",
        ("aos adopt --world copy --keys shop/keys",
         "aos adopt --world shop --store nats://10.0.0.1/shop --monitor http://10.0.0.1:8222"),
        "adopt:adopt",
    ),
    Command(
        "fork", CARRY, "Create a new world that continues from any record of this one.",
        ("aos fork try --at 4711",), "fork:fork",
    ),
    Command(
        "new", AUTHOR, "Create a project: a workflow, an effect, tests, and the SDK.",
        ("aos new parcels --lang rust",), "new:new",
    ),
    Command(
        "build", AUTHOR, "Build a project: its modules and their definitions (AIR).",
        ("aos build", "aos build --check"), "build:build",
    ),
    Command(
        "test", AUTHOR, "Run scenarios, and tests in Python and Rust, on an up-to-date build.",
        ("aos test", "aos test tests/declined.scenario.toml"), "test:run_tests",
    ),
    Command(
        "dev", AUTHOR, "Run a project in a scratch world, and rebuild it at each change.",
        ("aos dev --fresh",), "dev:dev",
    ),
    Command(
        "help", LOOK, "Show the help of a command.", ("aos help inspect cells",), "help:show_help",
    ),
    Command(
        "version", LOOK, "Print the version.", ("aos version",), "version:version",
    ),
    Command(
        "sdk", AUTHOR, "Update the project's copy of the SDK.", ("aos sdk update",),
    ),
    Command(
        "sdk update", AUTHOR, "Replace the project's copy of the SDK by the one of this aos.",
        ("aos sdk update",), "sdk:update",
    ),
)  # fmt: skip


def below(path: str, commands: Iterable[Command] = COMMANDS) -> tuple[Command, ...]:
    """The commands of one group, or the top-level commands for the empty path."""
    return tuple(command for command in commands if command.path.rpartition(" ")[0] == path)
