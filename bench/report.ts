import type { Measured } from './measure-hostcalls.ts';
import type { StartUp } from './measure-start-up.ts';

export interface Report {
  readonly hostcalls: readonly Measured[];
  /** Microseconds of one send through the port. */
  readonly sendUs: number;
  /** The same in bare imports. */
  readonly sendRatio: number;
  readonly startUp: StartUp;
}

const NAME_WIDTH = 42;

export function printReport({ hostcalls, sendUs, sendRatio, startUp }: Report): void {
  for (const against of new Set(hostcalls.map((one) => one.against))) {
    console.log(`\n${'hostcall'.padEnd(NAME_WIDTH)}${'ns'.padStart(10)}${`× ${against}`.padStart(22)}`);
    for (const one of hostcalls.filter((candidate) => candidate.against === against)) {
      console.log(
        `${one.name.padEnd(NAME_WIDTH)}${one.nsPerCall.toFixed(1).padStart(10)}${one.ratio.toFixed(1).padStart(22)}`,
      );
    }
  }
  const { helloMs, nodeMs, ratio, fastestRatio } = startUp;
  console.log(`\na send through the port and back: ${sendUs.toFixed(1)} µs, ${Math.round(sendRatio)} bare imports`);
  console.log(
    `spear-run hello.wasm: ${helloMs.toFixed(0)} ms, node -e 0: ${nodeMs.toFixed(0)} ms, ` +
      `ratio ${ratio.toFixed(2)} (of the fastest runs ${fastestRatio.toFixed(2)})`,
  );
}
