//! Questions about indexes, entries, chunks and snapshots, in a test build: as `values_probe`
//! (`tests/fastcore/state_questions.py` says what each one is).

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::journal::ports::Blobs;
use crate::snapshot::load::check_fields;
use crate::snapshot::shape::check_item;
use crate::state::cell_index::{proved, CellIndex};
use crate::state::entry::{entry_of, pack_keys, read_keys, Entry};
use crate::state::index_node::{
    entry_in, interior_bytes, leaf_bytes, leaf_count, read_interior, read_leaf, Prefix,
};
use crate::state::submissions::{read_chunk, write_chunk, Chunk};
use crate::values::cbor::{decode_record, encode, Value, RECORD};
use crate::values::digests::{content_hash, hash_text, Hash};
use crate::values::errors::{Failure, Outcome};

/// The bytes of an answer.
pub fn answer(question: &[u8]) -> Result<Vec<u8>, String> {
    let question = decode_record(question, RECORD).map_err(|problem| problem.to_string())?;
    let parts = question.as_list().expect("a question");
    let name = parts[0].as_text().expect("the name of a question");
    match value(name, Arguments(&parts[1..])) {
        Ok(value) => Ok(encode(&value)),
        Err(Failure::Damage(text)) => Err(text),
        Err(Failure::Host | Failure::Erased | Failure::Unwritable) => {
            Err("the host did not return".to_string())
        }
    }
}

struct Arguments<'a>(&'a [Value]);

impl<'a> Arguments<'a> {
    fn text(&self, index: usize) -> &'a str {
        self.0[index].as_text().expect("text")
    }

    fn bytes(&self, index: usize) -> &'a [u8] {
        self.0[index].as_bytes().expect("bytes")
    }

    fn maybe_bytes(&self, index: usize) -> Option<&'a [u8]> {
        self.0[index].as_bytes()
    }

    fn nat(&self, index: usize) -> u64 {
        self.0[index].as_nat().expect("a number")
    }

    fn hash(&self, index: usize) -> Hash {
        self.bytes(index).try_into().expect("32 bytes")
    }

    fn maybe_hash(&self, index: usize) -> Option<Hash> {
        self.maybe_bytes(index).map(|data| data.try_into().expect("32 bytes"))
    }

    fn list(&self, index: usize) -> &'a [Value] {
        self.0[index].as_list().expect("a list")
    }

    /// The index of the first three arguments: its nodes, its root, its number of entries.
    fn index(&self) -> Outcome<CellIndex> {
        let nodes = self.list(0).iter().map(|node| node.as_bytes().expect("bytes").to_vec());
        let nodes = nodes.map(|node| (content_hash(&node), node)).collect();
        CellIndex::new(self.maybe_hash(1), self.nat(2), Rc::new(Given(nodes)))
    }
}

/// The blobs of a question.
struct Given(BTreeMap<Hash, Vec<u8>>);

impl Blobs for Given {
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>> {
        let missing = || Failure::Damage(format!("blob {} is missing", hash_text(hash)));
        self.0.get(hash).cloned().ok_or_else(missing)
    }
}

fn bytes(data: impl Into<Vec<u8>>) -> Value {
    Value::Bytes(data.into())
}

fn maybe(data: Option<impl Into<Vec<u8>>>) -> Value {
    data.map_or(Value::Null, bytes)
}

fn nat(n: u64) -> Value {
    Value::Int(n.into())
}

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value::List(values.into_iter().collect())
}

fn value(name: &str, of: Arguments) -> Outcome<Value> {
    Ok(match name {
        "entry" => {
            let entry = Entry::new(of.bytes(0));
            let named = entry.references()?;
            let cell = entry.to_cell("a".into(), &Given(BTreeMap::new()), of.maybe_bytes(1))?;
            list([list(named.into_iter().map(bytes)), bytes(entry_of(&cell).data())])
        }
        "keys" => maybe(pack_keys(&read_keys(of.bytes(0))?)),
        "chunk" => {
            let chunk = Chunk { number: of.nat(0), hash: [0; 32], count: of.nat(1) };
            let rows = read_chunk(of.bytes(3), &chunk, of.nat(2))?;
            let mut written = Vec::new();
            write_chunk(chunk.number, rows.iter(), &mut |data| {
                let hash = content_hash(&data);
                written = data;
                hash
            });
            bytes(written)
        }
        "leaf" => {
            let at = content_hash(of.bytes(0));
            let prefix = Prefix::of(&of.hash(2), of.nat(3) as usize);
            bytes(leaf_bytes(&read_leaf(of.bytes(0), of.nat(1), prefix, &at)?))
        }
        "leaf count" => leaf_count(of.bytes(0)).map_or(Value::Null, nat),
        "entry in" => {
            let at = content_hash(of.bytes(0));
            maybe(entry_in(of.bytes(0), of.nat(1), &of.hash(2), &at)?)
        }
        "interior" => {
            let interior = read_interior(of.bytes(0), &content_hash(of.bytes(0)))?;
            list([Value::Int(interior.size as i128), bytes(interior_bytes(&interior))])
        }
        "get" => maybe(of.index()?.get(&of.hash(3))?),
        "items" => {
            let index = of.index()?;
            let rows = index.items(of.maybe_hash(3)).collect::<Outcome<Vec<_>>>()?;
            list(rows.into_iter().map(|(key, entry)| list([bytes(key), bytes(entry)])))
        }
        "leaves" => {
            let index = of.index()?;
            let skipped = of.maybe_hash(3);
            let rows = index.leaves(move |hash| skipped == Some(*hash));
            let rows = rows.collect::<Outcome<Vec<_>>>()?;
            let row = |(hash, entries): (Hash, Vec<Vec<u8>>)| {
                list([bytes(hash), list(entries.into_iter().map(bytes))])
            };
            list(rows.into_iter().map(row))
        }
        "proof" => list(of.index()?.prove(&of.hash(3))?.into_iter().map(bytes)),
        "proved" => {
            let proof: Vec<Vec<u8>> =
                of.list(2).iter().map(|node| node.as_bytes().expect("bytes").to_vec()).collect();
            maybe(proved(of.maybe_hash(0).as_ref(), &of.hash(1), &proof)?)
        }
        "updated" => {
            let changes = of.list(3).iter().map(|row| {
                let row = Arguments(row.as_list().expect("a row"));
                (row.hash(0), row.maybe_bytes(1).map(<[u8]>::to_vec))
            });
            let mut put = Vec::new();
            let updated = of.index()?.updated(changes.collect(), &mut |data| {
                let hash = content_hash(&data);
                put.push(bytes(data));
                hash
            })?;
            let root = updated.root().copied();
            list([maybe(root), nat(updated.count()), Value::List(put)])
        }
        "document" => check_fields(of.bytes(0)).map(|_| Value::Null)?,
        "item" => check_item(of.text(0), &of.0[1]).map(|()| Value::Null)?,
        _ => panic!("no such question"),
    })
}
