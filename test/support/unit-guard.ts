// Loaded before every unit test: what makes a test slow or dependent on the machine throws. A test that needs it is an
// integration test (`*.int.test.ts`).
import childProcess from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import timers from 'node:timers/promises';
import worker from 'node:worker_threads';
import { expect } from 'vitest';

function forbidden(what: string): () => never {
  return () => {
    throw new Error(`a unit test may not ${what}; use fakes, or name the file *.int.test.ts`);
  };
}

const noProcess = forbidden('start a process');
Object.assign(childProcess.ChildProcess.prototype, { spawn: noProcess });
Object.assign(childProcess, { spawnSync: noProcess, execFileSync: noProcess, execSync: noProcess });
Object.assign(net.Server.prototype, { listen: forbidden('open a socket') });
Object.assign(net.Socket.prototype, { connect: forbidden('open a connection') });
worker.Worker = class extends worker.Worker {
  constructor(...args: ConstructorParameters<typeof worker.Worker>) {
    super(...args);
    void this.terminate();
    forbidden('start a thread')();
  }
};

// A timer may be set and cleared, as deadlines are; a test that waits until one fires is slow and depends on the clock.
const { setTimeout: setRealTimeout } = globalThis;
const noWait = forbidden('wait for a real timer (vi.useFakeTimers)');
/** No test takes so long that waits for nothing, however busy the machine is. */
const PATIENCE_MS = 20_000;
const currentTest = () => {
  const { testPath, currentTestName } = expect.getState();
  return `${testPath} ${currentTestName}`;
};
const guarded = (callback: (...args: unknown[]) => void, delayMs = 0, ...args: unknown[]) => {
  if (!(delayMs > 0)) return setRealTimeout(callback, delayMs, ...args);
  const setBy = currentTest();
  // What a test before has left behind is nobody's wait.
  return setRealTimeout(() => currentTest() === setBy && noWait(), Math.max(delayMs, PATIENCE_MS));
};
globalThis.setTimeout = Object.assign(guarded, setRealTimeout) as typeof setTimeout;
timers.setTimeout = (delayMs = 0) => (delayMs > 0 ? noWait() : Promise.resolve()) as Promise<never>;
syncBuiltinESMExports();
