import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { flagWords } from '../../src/cli/run/registry-flags.ts';
import { loadHostConfig } from '../../src/config/host/host-config.ts';
import { type SpearletOptions, startSpearlet } from '../../src/node/node.ts';
import type { RunRecord } from '../../src/server/records/run.ts';
import { onStop, temporaryDirectory } from '../registry/running-sms.ts';
import { writeNodeFolder } from '../torture/node/node-life.ts';

const RUNS = '/v1/namespaces/default/runs';

/** A node in this process with the tasks of `writeNodeFolder`; `stopAll` ends it. `prepare` may change its folder. */
export async function startNode(
  options: Partial<SpearletOptions> = {},
  prepare: (folder: string) => void = () => {},
  folder = temporaryDirectory(),
) {
  writeNodeFolder(folder);
  prepare(folder);
  const host = await loadHostConfig({ file: join(folder, 'config.toml'), env: process.env });
  const data = join(folder, 'data');
  const logged: string[] = [];
  const node = await startSpearlet({
    host: { ...host, mcp: { ...host.mcp, firstSnapshotMs: 50 } },
    ...{ data, listen: '127.0.0.1:0', slots: 2, queue: null, taskDir: join(folder, 'tasks.d'), strict: true },
    registry: { directory: join(folder, 'mcp.d'), sms: undefined },
    words: flagWords,
    log: (level, event, fields = {}) => logged.push(`${level} ${event} ${JSON.stringify(fields)}`),
    ...options,
  });
  onStop(() => node.close());
  const token = readFileSync(join(data, 'admin.token'), 'utf8').trim();
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${token}`, ...init.headers };
    const answer = await fetch(`${node.url}${path}`, { ...init, headers });
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  };
  /** Waits until a run has an event of this kind. */
  const event = async (path: string, kind: string) => {
    const answer = await fetch(`${node.url}${path}/events`, { headers: { authorization: `Bearer ${token}` } });
    let seen = '';
    for await (const bytes of answer.body as ReadableStream<Uint8Array>) {
      seen += Buffer.from(bytes).toString();
      if (seen.includes(`event: ${kind}\n`)) return;
    }
    throw new Error(`the run has no event of kind ${kind}: ${seen}`);
  };
  return {
    node,
    event,
    folder,
    logged,
    ask,
    submit: (task: string) => ask(`/v1/namespaces/default/tasks/${task}/runs`, { method: 'POST' }),
    run: async (id: string) => JSON.parse((await ask(`${RUNS}/${id}`)).text) as RunRecord,
  };
}
