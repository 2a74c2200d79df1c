// Start arlocal on a free port of 127.0.0.1 (by itself it would listen on every address).
//
//     node start.js FOLDER
//
// FOLDER keeps its database. Prints one line once it listens: "arlocal ready: http://127.0.0.1:PORT".
// Ends when its standard input ends, so that it never outlives the program that started it.

"use strict";

const ArLocal = require("arlocal/bin/app").default;

async function main() {
  const arlocal = new ArLocal(1, false, process.argv[2], false);
  const { app } = arlocal;
  const listen = app.listen.bind(app);
  app.listen = (_port, _ready) => {
    const server = listen(0, "127.0.0.1", () => {
      process.stdout.write(`arlocal ready: http://127.0.0.1:${server.address().port}\n`);
    });
    return server;
  };
  process.stdin.resume();
  process.stdin.on("end", () => process.exit(0));
  await arlocal.start();
}

main();
