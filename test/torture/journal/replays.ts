// Replays journals again and again: `node --permission … replays.ts TIMES < list.json`. The permissions are the check:
// Node lets this process start no other and open no socket, so a replay that tried would end with ERR_ACCESS_DENIED.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { runGuest as RunGuest } from '../../../src/run/run-guest.ts';

export interface Replayed {
  readonly reason: string;
  readonly exitCode: number | null;
  readonly message: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface ReplayedJournal {
  readonly wasm: string;
  readonly file: string;
  readonly componentCache: string;
}

const { runGuest } = (await import(new URL('../../../dist/index.js', import.meta.url).href)) as {
  runGuest: typeof RunGuest;
};

/** What must not be possible here, tried. */
async function isLockedUp(): Promise<boolean> {
  const failed = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ERR_ACCESS_DENIED';
  const socket = await new Promise<boolean>((resolve) => {
    connect(9, '127.0.0.1')
      .once('error', (error) => resolve(failed(error)))
      .once('connect', () => resolve(false));
  });
  try {
    spawnSync('true');
    return false;
  } catch (error) {
    return socket && failed(error);
  }
}

const times = Number(process.argv[2]);
const journals = JSON.parse(readFileSync(0, 'utf8')) as readonly ReplayedJournal[];
const all: Replayed[][] = [];
for (const { wasm, file, componentCache } of journals) {
  const replays: Replayed[] = [];
  for (let replay = 0; replay < times; replay++) {
    const said = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    const output = (stream: 'stdout' | 'stderr', bytes: Uint8Array) => void said[stream].push(bytes.slice());
    const journal = { file, mode: 'replay' } as const;
    const { reason, exitCode, message } = await runGuest({ wasm, journal, componentCache, output, onNotice: () => {} });
    const text = (stream: 'stdout' | 'stderr') => Buffer.concat(said[stream]).toString('base64');
    replays.push({ reason, exitCode, message, stdout: text('stdout'), stderr: text('stderr') });
  }
  all.push(replays);
}
process.stdout.write(JSON.stringify({ lockedUp: await isLockedUp(), replays: all }));
