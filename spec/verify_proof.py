"""Check a proof of an AOS world without AOS, as spec/proofs.md says (PF-40 to PF-76).

It needs Python 3.11, blake3 and PyNaCl; for --ca also the program openssl.
Exit 0: the proof holds and is trusted; 1: it holds, and is not; 3: it does not hold.
"""

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from blake3 import blake3
from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

FILE_MAX, NOTE_MAX, LINES_MAX, PATH_MAX, WORLDS_MAX, BATCH_MAX = 2**26, 2**16, 100, 64, 64, 65_536
ROLES = {"record": ("record",), "intent": ("asked", "settled", "manifest"),
         "cell": ("last", "snapshot"), "consistency": ()}  # fmt: skip
SIGNED = ("intent", "effect", "executor", "key_id", "attempt", "status", "started_ns",
          "finished_ns")  # fmt: skip


class Fails(Exception):
    """The proof does not hold."""


def need(condition, why):
    if not condition:
        raise Fails(why)


def is_nat(value):
    return type(value) is int and 0 <= value < 2**64


def head(major, n):
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 24:
            return bytes([major << 5 | n])
        if n < 1 << 8 * size:
            return bytes([major << 5 | info]) + n.to_bytes(size, "big")
    raise Fails("an integer is too large")


def encode(value):
    """Canonical CBOR (spec/values.md, V-10)."""
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(encode, value))
    pairs = sorted((encode(key), encode(each)) for key, each in value.items())
    return head(5, len(pairs)) + b"".join(key + each for key, each in pairs)


def decode(data, what, most=2**26):
    """The value whose only spelling ``data`` is (PF-42)."""
    items = 2**22

    def item(at, levels):
        nonlocal items
        items -= 1
        need(at < len(data) and items >= 0, f"{what} is cut short, or too large")
        major, n, at = data[at] >> 5, data[at] & 31, at + 1
        if major == 7:
            need(n in (20, 21, 22), f"{what} is not canonical CBOR")
            return {20: False, 21: True, 22: None}[n], at
        if n >= 24:
            need(n < 28, f"{what} is not canonical CBOR")
            size = 1 << n - 24
            n, at = int.from_bytes(data[at : at + size], "big"), at + size
        if major < 2:
            return (n if major == 0 else -1 - n), at
        if major < 4:
            need(at + n <= len(data), f"{what} is cut short")
            part = data[at : at + n]
            return (part if major == 2 else part.decode()), at + n
        need(major < 6 and levels and n <= len(data), f"{what} is not canonical CBOR")
        found = []
        for _ in range(n * (major - 3)):
            value, at = item(at, levels - 1)
            found.append(value)
        if major == 4:
            return found, at
        need(all(type(key) in (str, int) for key in found[::2]), f"{what} is not canonical CBOR")
        return dict(zip(found[::2], found[1::2], strict=True)), at

    need(len(data) <= most, f"{what} is too large")
    value, end = item(0, 128)
    need(end == len(data) and encode(value) == data, f"{what} is not canonical CBOR")
    return value


def text_map(data, what, most=2**26):
    value = decode(data, what, most)
    need(isinstance(value, dict) and all(isinstance(key, str) for key in value), f"{what}: no map")
    return value


def content(data):
    return blake3(data).digest()


def digest(*parts):
    return content(encode(list(parts)))


def node(left, right):
    return digest("aos/node/1", left, right)


def sha_node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def root_from(leaf, index, size, path, join):
    """The root that a path proves (J-23, PF-5)."""
    need(0 <= index < size, "a place is outside of its tree")
    sides = []
    while size > 1:
        split = 1 << (size - 1).bit_length() - 1
        sides.append(index >= split)
        index, size = (index - split, size - split) if index >= split else (index, split)
    need(len(sides) == len(path), "a path has another length than its place asks for")
    for is_right, other in zip(reversed(sides), path, strict=True):
        leaf = join(other, leaf) if is_right else join(leaf, other)
    return leaf


def consistent(old, old_root, size, new_root, path):
    """PF-6."""
    need(old <= size, "the old checkpoint is larger than the new one")
    if old in (0, size):
        return not path and old_root == (new_root if old else hashlib.sha256().digest())
    begin, end, sides = 0, size, []
    while end != old:
        middle = begin + (1 << (end - begin - 1).bit_length() - 1)
        sides.append(old > middle)
        begin, end = (middle, end) if old > middle else (begin, middle)
    need(len(path) == len(sides) + bool(begin), "the path has another length")
    first, *rest = path if begin else [old_root, *path]
    in_old = in_new = first
    for is_right, other in zip(reversed(sides), rest, strict=True):
        if is_right:
            in_old, in_new = sha_node(other, in_old), sha_node(other, in_new)
        else:
            in_new = sha_node(in_new, other)
    return in_old == old_root and in_new == new_root


def is_signed(message, signature, key):
    if len(signature) != 64 or len(key) != 32:
        return False
    try:
        crypto_sign_open(signature + message, key)
    except (BadSignatureError, ValueError):
        return False
    return True


def b64(text):
    need(isinstance(text, str), "expected base64")
    data = base64.b64decode(text, validate=True)
    need(base64.b64encode(data).decode() == text, "base64 in another spelling")
    return data


def unhex(text, size=32):
    need(isinstance(text, str) and re.fullmatch("(?:[0-9a-f]{2})*", text), "expected hex digits")
    need(size is None or len(text) == 2 * size, "a hash has another length")
    return bytes.fromhex(text)


def fields(value, needed, optional=()):
    """The values of an object's fields, which must be these; None for an optional one."""
    need(isinstance(value, dict), "expected an object")
    need(set(needed) <= set(value) <= {*needed, *optional}, "unknown or missing fields")
    return [value.get(name) for name in (*needed, *optional)]


def listed(value, most=None):
    need(isinstance(value, list) and (most is None or len(value) <= most), "expected a list")
    return value


def pairs(found):
    need(len(dict(found)) == len(found), "a field is there twice")
    return dict(found)


def no_number(_):
    raise Fails("a number is not an integer")


def parse_note(text):
    """The text and the signatures of a note: (name, key hash, signature) (PF-10, PF-11)."""
    need(isinstance(text, str) and len(text.encode()) <= NOTE_MAX, "the note is too large")
    need(not re.search("[\x00-\x09\x0b-\x1f\x7f]", text), "the note has control characters")
    body, gap, rest = text.rpartition("\n\n")
    need(gap and rest.endswith("\n"), "the note has no signatures")
    lines = rest[:-1].split("\n")
    need(len(lines) <= LINES_MAX, "the note has too many signatures")
    found = []
    for line in lines:
        match = re.fullmatch(r"\u2014 ([^\s+\x00-\x20\x7f]+) (\S+)", line)
        need(match and len(match[1].encode()) <= 255, "a line under the note is no signature")
        data = b64(match[2])
        need(len(data) > 4, "a signature is too short")
        found.append((match[1], data[:4], data[4:]))
    return body + "\n", found


def key_hash(name, kind, key):
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + key).digest()[:4]


def note_signed(note, name, kind, key):
    """Whether a key signed a note; a wrong signature of it is a failure (PF-14)."""
    text, signatures = note
    found = [
        data
        for who, hashed, data in signatures
        if (who, hashed) == (name, key_hash(name, kind, key))
    ]
    for data in found:
        message = text.encode()
        if kind == 4:
            need(len(data) == 72, "a cosignature has another form")
            time, data = int.from_bytes(data[:8], "big"), data[8:]
            message = f"cosignature/v1\ntime {time}\n".encode() + message
        need(is_signed(message, data, key), f"the signature of {name} is wrong")
    return bool(found)


def checkpoint(text, world, key):
    """(size, root, note) of a checkpoint of the world (PF-17 to PF-19)."""
    note = parse_note(text)
    lines = note[0].split("\n")
    need(len(lines) == 4 and lines[0] == f"aos/{world.hex()}", "the checkpoint is of another log")
    need(re.fullmatch("0|[1-9][0-9]{0,18}", lines[1]), "the checkpoint has no size")
    root = b64(lines[2])
    need(len(root) == 32, "the checkpoint has no root")
    need(note_signed(note, lines[0], 1, key), "the log's own key did not sign the checkpoint")
    return int(lines[1]), root, note


def hash_of(slot):
    """J-15."""
    if isinstance(slot, bytes):
        return content(slot)
    hashed, size = fields(slot, ("hash", "size"))
    need(isinstance(hashed, bytes) and len(hashed) == 32 and is_nat(size), "a value is unreadable")
    return hashed


def shown_record(value, anchor, worlds):
    """PF-51 to PF-54: (sequence, fields, world)."""
    seq, data, salt, index, count, path, frame = fields(
        value, ("seq", "bytes", "salt", "index", "count", "path", "frame")
    )
    need(all(map(is_nat, (seq, index, count))), "a place is no number")
    place, way, header = fields(frame, ("index", "path"), ("header",))
    need(is_nat(place), "a place is no number")
    data, path, way = (
        b64(data),
        [*map(unhex, listed(path, PATH_MAX))],
        [*map(unhex, listed(way, PATH_MAX))],
    )
    record = text_map(data, "a record")
    need(is_nat(record.get("seq")) and record["seq"] == seq, "the bytes are of another record")
    need(isinstance(record.get("kind"), str), "the record has no kind")
    root = root_from(digest("aos/leaf/1", unhex(salt), data), index, count, path, node)
    if anchor["kind"] == "head":
        need(header is None, "a proof by the head has no headers")
        log = root_from(digest("aos/log-leaf/1", root), place, anchor["size"], way, node)
        need(log == anchor["root"] and seq <= anchor["seq"], "the frame is not in the log")
        return seq, record, worlds[0][0]
    header = b64(header)
    version, world, first, last, prev, found, log_root = fields(
        text_map(header, "a header", 65_535),
        ("version", "world", "first", "last", "prev", "root", "log_root"),
    )
    need(all(map(is_nat, (version, first, last))) and version == 1, "the header is unreadable")
    hashes = (world, prev, found, log_root)
    need(all(isinstance(each, bytes) and len(each) == 32 for each in hashes), "no header")
    need(1 <= first <= last and found == root, "the record is not in its frame")
    need((first + index, last - first + 1) == (seq, count), "the record is in another place")
    need(world in [each[0] for each in worlds], "the frame's world is not named")
    leaf = hashlib.sha256(b"\x00" + header).digest()
    tree = root_from(leaf, place, anchor["size"], way, sha_node)
    need(tree == anchor["root"], "the frame is not in the tree of the checkpoint")
    return seq, record, world


def receipt_signed(record, world):
    """The key that signed a receipt (PF-63)."""
    names = (*SIGNED, *(("cost_cents",) if "cost_cents" in record else ()))
    body = {"world": world, **{name: record.get(name) for name in names}}
    need(
        all(isinstance(each, int | str | bytes) for each in body.values()),
        "the receipt is unreadable",
    )
    message = encode(["aos/receipt/1", {**body, "payload": hash_of(record.get("payload"))}])
    if "batch" in record:
        index, size, path = fields(record["batch"], ("index", "size"), ("path",))
        path = listed(path, 17) if "path" in record["batch"] else []
        need(is_nat(index) and is_nat(size) and 0 < size <= BATCH_MAX, "the batch is unreadable")
        need(
            all(isinstance(each, bytes) and len(each) == 32 for each in path),
            "the path is unreadable",
        )
        root = root_from(digest("aos/receipt-leaf/1", message), index, size, path, node)
        named = {name: body[name] for name in ("world", "executor", "key_id")}
        message = encode(["aos/receipts/1", {**named, "root": root, "size": size}])
    key, signature = record.get("key_id"), record.get("signature")
    need(isinstance(key, bytes) and isinstance(signature, bytes), "the receipt has no signature")
    need(is_signed(message, signature, key), "the executor's key did not sign the receipt")
    return key


def intent(claim, records, values, worlds):
    """PF-62 to PF-64: the hashes of values that may be shown."""
    name = unhex(claim["intent"])
    need("asked" in records, "the step is missing")
    seq, step, _ = records["asked"]
    need(step["kind"] == "step", "the record that asked is no step")
    cell = listed(step.get("cell"))
    need([*map(type, cell)] == [str, bytes], "the step is of no cell")
    asked = [each for each in maps(step.get("intents", [])) if each.get("intent") == name]
    need(len(asked) == 1, "the step did not ask for this effect")
    need(isinstance(asked[0].get("effect"), str), "the intent names no effect")
    allowed, key = [hash_of(asked[0].get("params"))], None
    if "settled" in records:
        when, receipt, world = records["settled"]
        need(receipt["kind"] in ("receipt", "kernel_receipt") and when > seq, "it is no receipt")
        same = [receipt.get(each) for each in ("intent", "effect", "cell")]
        need(same == [name, asked[0].get("effect"), step.get("cell")], "it is another's receipt")
        allowed.append(hash_of(receipt.get("payload")))
        if receipt["kind"] == "receipt":
            key = receipt_signed(receipt, world)
    if "manifest" in records:
        need(key is not None, "a manifest is shown, and no receipt that an executor signed")
        when, manifest, _ = records["manifest"]
        need(manifest["kind"] == "manifest" and when < seq, "it is no manifest from before")
        allowed.append(hash_of(manifest.get("document")))
        need(allowed[-1] in values, "the document of the manifest is missing")
        document = text_map(values[allowed[-1]], "the manifest").get("manifest")
        need(isinstance(document, dict), "the manifest is unreadable")
        own = next(each[2] for each in worlds if each[0] == world)
        executor, effect = receipt.get("executor"), receipt.get("effect")
        if "executors" not in document:
            need(executor == "node" and key == own, "another key than the world's signed")
            return allowed
        found = [each for each in maps(document["executors"]) if each.get("name") == executor]
        need(len(found) == 1 and isinstance(found[0].get("effects"), list), "no such executor")
        need(effect in found[0]["effects"], "the manifest does not list the effect")
        expected = own if executor == "node" else found[0].get("public_key")
        need((key if executor == "node" else f"ed25519:{key.hex()}") == expected, "another key")
    return allowed


def maps(value):
    need(isinstance(value, list) and all(isinstance(each, dict) for each in value), "unreadable")
    return value


def cell(claim, records, values, nodes):
    """PF-65 to PF-68."""
    name, key = claim["workflow"], unhex(claim["key"], None)
    need(isinstance(name, str), "a workflow has a name")
    need("last" in records or "snapshot" in records, "no record of the cell is shown")
    allowed, last = [], None
    if "last" in records:
        last, record, _ = records["last"]
        need(record["kind"] in ("step", "fault") and record.get("cell") == [name, key], "another's")
        if "state" in record:
            allowed.append(hash_of(record["state"]))
    if "snapshot" in records:
        _, record, _ = records["snapshot"]
        need(record["kind"] == "snapshot", "it is no snapshot")
        allowed.append(hash_of(record.get("document")))
        need(allowed[-1] in values, "the document of the snapshot is missing")
        document = text_map(values[allowed[-1]], "the snapshot")
        at, frame = record.get("at"), record.get("frame")
        need(is_nat(at) and isinstance(frame, bytes) and len(frame) == 32, "no place")
        need(is_nat(document.get("seq")), "the snapshot is unreadable")
        place = [document["seq"], document.get("frame")]
        need(place == [at, frame], "the document is of another place")
        need(isinstance(document.get("cells"), dict), "the snapshot is unreadable")
        row = document["cells"].get(name, [None, 0])
        need(isinstance(row, list) and len(row) >= 2 and is_nat(row[1]), "the row is unreadable")
        entry = in_index(row[0], row[1], content(key), [*map(b64, listed(nodes, PATH_MAX))])
        if entry is not None:
            parts = decode(entry, "the entry")
            kinds = [bytes, bytes, int, int, int, bytes, bytes, dict]
            need(
                isinstance(parts, list) and [*map(type, parts)] == kinds, "the entry is unreadable"
            )
            need(
                parts[0] == key and len(parts[1]) == 32 and min(parts[2:5]) >= 0,
                "the entry is wrong",
            )
            need(last == parts[4], "the snapshot names another record as the last one")
            allowed.append(parts[1])
    return allowed


def in_index(root, count, key, nodes):
    """The entry of a key hash under the root of an index, or None (CI-1 to CI-14)."""
    if root is None:
        need(count == 0 and not nodes, "an empty index has no nodes")
        return None
    need(
        isinstance(root, bytes) and len(root) == 32 and nodes, "the nodes of the index are missing"
    )
    for depth, data in enumerate(nodes):
        need(root is not None and content(data) == root, "a node of the index is another")
        kind, *parts = decode(data, "a node")
        prefix, is_last = key.hex()[:depth], depth + 1 == len(nodes)
        need(all(isinstance(part, bytes) for part in parts) and len(parts) == 3, "no node")
        if kind == "aos/index-leaf/1":
            keys = [parts[0][at : at + 32] for at in range(0, len(parts[0]), 32)]
            ends = [
                int.from_bytes(parts[1][at : at + 4], "big") for at in range(0, len(parts[1]), 4)
            ]
            need(
                len(keys) == count <= 64 and len(parts[0]) == 32 * count, "a leaf has another size"
            )
            need(len(parts[1]) == 4 * count and is_last, "a leaf has another size")
            need(keys == sorted(set(keys)) and all(each.hex().startswith(prefix) for each in keys),
                 "the keys of a leaf are not in order")  # fmt: skip
            starts = [0, *ends[:-1]]
            sizes = [end - start for start, end in zip(starts, ends, strict=True)]
            need(ends[-1] == len(parts[2]) and min(sizes) >= 0 and max(sizes) <= 2**20, "bad ends")
            at = keys.index(key) if key in keys else None
            return None if at is None else parts[2][starts[at] : ends[at]]
        need(kind == "aos/index-node/1" and len(parts[0]) == 2 and depth <= 62, "no node")
        bits = int.from_bytes(parts[0], "big")
        counts = [int.from_bytes(parts[2][at : at + 8], "big") for at in range(0, len(parts[2]), 8)]
        need(
            len(parts[1]) == 32 * bits.bit_count() and len(parts[2]) == 8 * bits.bit_count(),
            "no node",
        )
        need(sum(counts) == count > 64 and 0 not in counts, "a node has another size")
        nibble = int(key.hex()[depth], 16)
        at = (bits & (1 << nibble) - 1).bit_count()
        root, count = (
            (parts[1][32 * at : 32 * at + 32], counts[at]) if bits >> nibble & 1 else (None, 0)
        )
    need(root is None, "the nodes end before the leaf")
    return None


def check(data):
    """Check a proof: (world, key, note or None)."""
    need(len(data) <= FILE_MAX, "the file is too large")
    found = json.loads(data.decode(), object_pairs_hook=pairs, parse_float=no_number,
                       parse_constant=no_number)  # fmt: skip
    need(isinstance(found, dict) and isinstance(found.get("claim"), dict), "it is no proof")
    kind = found["claim"].get("kind")
    need(found.get("format") == "aos-proof/1" and kind in ROLES, "it is no proof of a known kind")
    named = {"intent": ("intent",), "cell": ("workflow", "key")}.get(kind, ())
    fields(found["claim"], ("kind", *named))
    more = ("old", "path") if kind == "consistency" else ()
    records = found.get("records")
    fields(records, (), ROLES[kind])
    more = ("nodes",) if kind == "cell" and "snapshot" in records else more
    fields(found, ("format", "claim", "worlds", "anchor", "records", "values", *more))
    worlds = []
    for each in listed(found["worlds"], WORLDS_MAX):
        world, nonce, key = fields(each, ("world", "nonce", "key"))
        worlds.append((unhex(world), unhex(nonce, None), unhex(key)))
        need(digest("aos/world/1", *worlds[-1][1:]) == worlds[-1][0], "a world has another id")
    need(worlds, "the proof names no world")
    world, _, key = worlds[0]
    note, anchor = None, found["anchor"]
    need(isinstance(anchor, dict), "the proof has no anchor")
    if anchor.get("kind") == "head":
        fields(anchor, ("kind", "head"))
        of, seq, frame, root, size, signature = listed(
            decode(b64(anchor["head"]), "the head", 4096)
        )
        need(is_nat(seq) and is_nat(size), "the head is unreadable")
        need(all(isinstance(each, bytes) and len(each) == 32 for each in (of, frame, root)), "head")
        need(of == world and isinstance(signature, bytes), "the head is another world's")
        message = encode(["aos/head/1", of, seq, frame, root, size])
        need(is_signed(message, signature, key), "the world's key did not sign the head")
        anchor = {"kind": "head", "size": size, "root": root, "seq": seq}
    else:
        need(anchor.get("kind") == "checkpoint", "the proof has no anchor")
        _, text, stamp = fields(anchor, ("kind", "note"), ("timestamp",))
        need("timestamp" not in anchor or b64(stamp) is not None, "the time-stamp is unreadable")
        size, root, note = checkpoint(text, world, key)
        anchor = {"kind": "checkpoint", "size": size, "root": root}
    records = {role: shown_record(each, anchor, worlds) for role, each in records.items()}
    values = {content(each): each for each in map(b64, listed(found["values"]))}
    need(len(values) == len(found["values"]), "a value is there twice")
    allowed = []
    if kind == "record":
        need(records, "the record is missing")
    elif kind == "intent":
        allowed = intent(found["claim"], records, values, worlds)
    elif kind == "cell":
        allowed = cell(found["claim"], records, values, found.get("nodes"))
    else:
        need(note is not None, "a proof of consistency needs a checkpoint")
        path = [*map(unhex, listed(found["path"], PATH_MAX))]
        before = checkpoint(found["old"], world, key)
        need(consistent(*before[:2], size, root, path), "the old checkpoint is not its beginning")
    need(set(values) <= set(allowed), "a value is shown that no record refers to")
    return world, key, note


def decide(data, world=None, key=None, witnesses=(), needed=None):
    """(exit code, why). ``needed`` of ``witnesses``, each (name, public key), must have signed."""
    try:
        found, public, note = check(data)
        cosigned = {each for name, each in witnesses if note and note_signed(note, name, 4, each)}
    except (Fails, ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        return 3, f"the proof does not hold: {problem}"
    needed = len({each for _, each in witnesses}) if needed is None else needed
    is_named = world is not None or key is not None
    is_ours = world in (None, "blake3:" + found.hex()) and key in (None, "ed25519:" + public.hex())
    if is_named and is_ours and len(cosigned) >= needed:
        return 0, f"the proof holds, and world blake3:{found.hex()} says so"
    return (
        1,
        f"it holds, and is not trusted: {len(cosigned)} of {needed} witnesses, as was asked for",
    )


def is_stamped(data, ca):
    """Whether openssl accepts the time-stamp of a proof that holds (PF-72, PF-92)."""
    anchor = json.loads(data)["anchor"]
    if "timestamp" not in anchor:
        return False
    body, _, rest = anchor["note"].rpartition("\n\n")
    lines = rest.removesuffix("\n").split("\n")
    with tempfile.TemporaryDirectory() as folder:
        note, reply = Path(folder, "note"), Path(folder, "note.tsr")
        reply.write_bytes(b64(anchor["timestamp"]))
        for count in range(len(lines), 0, -1):
            note.write_bytes("\n".join([body, "", *lines[:count], ""]).encode())
            command = ["openssl", "ts", "-verify", "-data", note, "-in", reply, "-CAfile", ca]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:  # noqa: S603
                return True
    return False


def witness(text):
    name, _, rest = text.partition("+")
    public = base64.b64decode(rest.partition("+")[2])
    if public[:1] != b"\4" or rest[:8] != key_hash(name, 4, public[1:]).hex():
        raise argparse.ArgumentTypeError("this is no verifier key of a witness")
    return name, public[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--world", help="blake3:<64 hex>: id of the world that you trust")
    parser.add_argument("--key", help="ed25519:<64 hex>: public key of the world that you trust")
    parser.add_argument("--witness", type=witness, action="append", default=[], metavar="VKEY")
    parser.add_argument("--witnesses", type=int, metavar="N", help="how many must have cosigned")
    parser.add_argument("--ca", metavar="FILE", help="PEM: who must have time-stamped (openssl)")
    chosen = parser.parse_args()
    try:
        with chosen.file.open("rb") as opened:
            data = opened.read(FILE_MAX + 1)
    except OSError as problem:
        parser.error(f"{chosen.file}: the file cannot be read: {problem.strerror}")
    code, why = decide(data, chosen.world, chosen.key, chosen.witness, chosen.witnesses)
    if code == 0 and chosen.ca:
        try:
            Path(chosen.ca).read_bytes()
            if not is_stamped(data, chosen.ca):
                code, why = 1, f"it holds; no authority in {chosen.ca} stamped its time"
        except OSError as problem:
            parser.error(f"--ca: {problem}")
    print(why, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
