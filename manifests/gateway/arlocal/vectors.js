// Items, bundles and data roots as the packages arbundles and arweave make them: the independent
// implementation that the tests of the executor compare with. Prints one JSON document.
//
//     node vectors.js > ../../../tests/gateway/arweave/vectors.json

"use strict";

const { createHash } = require("crypto");
const { bundleAndSignData, createData } = require("arbundles");
const SolanaSigner = require("arbundles/src/signing/chains/SolanaSigner").default;
const { computeRootHash } = require("arweave/node/lib/merkle");
const bs58 = require("bs58");
const nacl = require("tweetnacl");

const KIB = 1024;
const SEED = Buffer.from(Array.from({ length: 32 }, (_, index) => index));

const ITEMS = [
  { size: 0, tags: [["Content-Type", "text/plain"]] },
  { size: 1, tags: [["Content-Type", "application/json"], ["App", "aos"]] },
  { size: 300, tags: [["Content-Type", "text/plain"], ["Grüße", "世界"], ["Long", "x".repeat(120)]] },
  { size: 512 * KIB, tags: [["Content-Type", "application/octet-stream"]] },
];

const ROOT_SIZES = [
  1, 255, 32 * KIB, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 288 * KIB - 1, 288 * KIB,
  512 * KIB, 512 * KIB + 1, 544 * KIB - 1, 1280 * KIB + 7,
];

// Bytes that no two offsets near each other share, the same in the tests.
function content(size) {
  return Buffer.from(Array.from({ length: size }, (_, index) => (index * 7 + (index >> 8)) & 255));
}

function sha256(data) {
  return createHash("sha256").update(data).digest("hex");
}

async function main() {
  const pair = nacl.sign.keyPair.fromSeed(SEED);
  const signer = new SolanaSigner(bs58.encode(Buffer.from(pair.secretKey)));
  const items = [];
  for (const { size, tags } of ITEMS) {
    const named = tags.map(([name, value]) => ({ name, value }));
    const item = createData(content(size), signer, { tags: named });
    await item.sign(signer);
    const bundle = await bundleAndSignData([item], signer);
    items.push({
      size, tags, id: item.id, item_sha256: sha256(item.getRaw()), bundle_sha256: sha256(bundle.getRaw()),
    });
  }
  const roots = {};
  for (const size of ROOT_SIZES) {
    roots[size] = Buffer.from(await computeRootHash(content(size))).toString("hex");
  }
  process.stdout.write(`${JSON.stringify({ seed: SEED.toString("hex"), items, roots }, null, 1)}\n`);
}

main();
