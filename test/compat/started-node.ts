import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import { flagWords } from '../../src/cli/run/registry-flags.ts';
import { loadHostConfig } from '../../src/config/host/host-config.ts';
import { type SpearletOptions, startSpearlet } from '../../src/node/node.ts';
import { hasEnded, type RunRecord, type RunStatus } from '../../src/server/records/run.ts';
import { frame, frameData } from '../support/stream-client.ts';

const RUNS = '/v1/namespaces/default/runs';
/** Longer than any fixture is old, so that no ended run is removed. */
const RETENTION_HOURS = 200 * 366 * 24;
const LOOK_MS = 20;

export interface StartedNode {
  runs(): Promise<readonly RunRecord[]>;
  /** Waits until the run has this status. */
  until(id: string, status: RunStatus): Promise<RunRecord>;
  /** The text of an answer about a run: its `result`, its `journal`. */
  read(id: string, what: 'result' | 'journal'): Promise<string>;
  /** Connects to stream 1 of a run, sends one text and gives the answer. */
  talk(id: string, text: string): Promise<string>;
}

/** A node in this process on the data of a fixture in `folder`; it ends with the test. */
export async function startedNode(
  folder: string,
  options: Partial<Pick<SpearletOptions, 'registry' | 'queue'>>,
  env: NodeJS.ProcessEnv,
): Promise<StartedNode> {
  const host = await loadHostConfig({ file: join(folder, 'config.toml'), env: { ...process.env, ...env } });
  const limits = { ...host.node.limits, retention_hours: RETENTION_HOURS };
  const data = join(folder, 'data');
  const node = await startSpearlet({
    host: { ...host, node: { ...host.node, limits } },
    ...{ data, listen: '127.0.0.1:0', slots: 2, queue: null, taskDir: null, strict: true },
    registry: { directory: undefined, sms: undefined },
    words: flagWords,
    log: () => {},
    ...options,
  });
  onTestFinished(() => node.close());
  const token = readFileSync(join(data, 'admin.token'), 'utf8').trim();
  const headers = { authorization: `Bearer ${token}` };
  const get = async (path: string) => (await fetch(`${node.url}${path}`, { headers })).text();
  return {
    runs: async () => (JSON.parse(await get(`${RUNS}?limit=100`)) as { readonly runs: readonly RunRecord[] }).runs,
    async until(id, status) {
      for (;;) {
        const run = JSON.parse(await get(`${RUNS}/${id}`)) as RunRecord;
        if (run.status === status) return run;
        if (hasEnded(run.status)) throw new Error(`it ended: ${JSON.stringify(run)}`);
        await delay(LOOK_MS);
      }
    },
    read: (id, what) => get(`${RUNS}/${id}/${what}`),
    async talk(id, text) {
      const address = `${node.url.replace('http', 'ws')}/api/v1/executions/${id}/streams/ws`;
      const client = new WebSocket(address, 'spear.stream.v1', { headers });
      await once(client, 'open');
      client.send(frame(1, text));
      const [answer] = (await once(client, 'message')) as [Buffer];
      client.close();
      await once(client, 'close');
      return frameData(new Uint8Array(answer));
    },
  };
}
