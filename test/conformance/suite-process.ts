// A conformance suite's own command, run again and again in one process: `node test/conformance/suite-process.ts FILE`.
// Each message is the arguments of a run; the answer is how it would have ended. A start of its own for each would cost
// more than the scenarios do.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

/** What the command did until it ended. */
export interface SuiteRun {
  readonly code: number;
  readonly output: string;
}

/** Thrown where the command meant to end its process, so that it goes no further. */
class Ended extends Error {}

const file = pathToFileURL(resolve(process.argv[2] ?? '')).href;
let runs = 0;

function run(args: readonly string[]): Promise<SuiteRun> {
  return new Promise((ended, failed) => {
    let output = '';
    const write = (chunk: string | Uint8Array): boolean => {
      output += String(chunk);
      return true;
    };
    process.stdout.write = write;
    process.stderr.write = write;
    process.exit = (code) => {
      ended({ code: Number(code ?? 0), output });
      throw new Ended();
    };
    process.argv = [process.execPath, file, ...args];
    // Another address, another instance: of the suite alone, what it imports is there already.
    import(`${file}?${runs++}`).catch(failed);
  });
}

process.on('unhandledRejection', (error) => {
  if (!(error instanceof Ended)) throw error;
});
process.on('message', async (args: string[]) => process.send?.(await run(args)));
