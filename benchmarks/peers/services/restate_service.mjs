// The three steps for Restate's TypeScript SDK, without types, so that nothing has to be compiled:
// each step is durable before the next one begins.

// The SDK uses it, and Node has it from version 22 on.
Promise.withResolvers ??= function withResolvers() {
  let resolve, reject;
  const promise = new this((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
};

const restate = await import("@restatedev/restate-sdk");

async function threeSteps(ctx) {
  let sum = 0;
  for (let step = 1; step <= 3; step++) {
    sum += await ctx.run(`step ${step}`, () => step);
  }
  return sum;
}

async function addToSum(ctx, { by }) {
  const sum = ((await ctx.get("sum")) ?? 0) + by;
  ctx.set("sum", sum);
  return sum;
}

await restate.serve({
  services: [
    restate.service({ name: "steps", handlers: { run: threeSteps } }),
    // One invocation at a time for each key; the others wait.
    restate.object({ name: "line", handlers: { run: threeSteps } }),
    // A sum for each key: what a keyed counter is on AOS.
    restate.object({ name: "sum", handlers: { add: addToSum } }),
  ],
  port: Number(process.argv[2]),
});
