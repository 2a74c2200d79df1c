// Compiles the standard JSON input on stdin with the solc of ../tools and prints its output.
"use strict";

const path = require("node:path");
const solc = require(path.join(__dirname, "..", "tools", "node_modules", "solc"));

const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk));
process.stdin.on("end", () => {
  const output = JSON.parse(solc.compile(Buffer.concat(chunks).toString("utf8")));
  process.stdout.write(JSON.stringify({ version: solc.version(), output }));
});
