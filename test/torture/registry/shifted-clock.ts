// Loaded before a program: its clock on the wall is off by the milliseconds that stand in the file TORTURE_CLOCK, which
// may change while it runs. Monotonic time is left alone, as it is when an operator or NTP sets the clock.
import { readFileSync } from 'node:fs';

const file = process.env.TORTURE_CLOCK ?? '';
const LOOK_MS = 10;
const real = Date;
let shiftMs = 0;

function look(): void {
  const read = Number(readFileSync(file, 'utf8'));
  if (Number.isFinite(read)) shiftMs = read;
}

look();
setInterval(look, LOOK_MS).unref();

globalThis.Date = new Proxy(real, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [real.now() + shiftMs] : args, newTarget),
  get: (target, name, receiver) => (name === 'now' ? () => real.now() + shiftMs : Reflect.get(target, name, receiver)),
});
