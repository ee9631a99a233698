import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
export const hello = join(root, 'fixtures/c/hello.wasm');

/** A node whose only task says hello. */
export interface HelloNode {
  /** Milliseconds for each of so many runs, from the submission of the first to the end of the last. */
  run(runs: number, lanes: number): Promise<number>;
  close(): Promise<void>;
}

/** `spearlet` as it is installed, in a process and a folder of its own. */
export async function openHelloNode(args: readonly string[] = []): Promise<HelloNode> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-node-'));
  writeFileSync(join(folder, 'hello.toml'), `name = "hello"\nwasm = ${JSON.stringify(hello)}\nconcurrency = 1000\n`);
  const where = ['--task-dir', folder, '--data', join(folder, 'data'), '--listen', '127.0.0.1:0'];
  const child = spawn(process.execPath, [join(root, 'bin/spearlet.cjs'), ...where, ...args], {
    env: { HOME: folder },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  const close = async () => {
    child.kill('SIGKILL');
    await exited;
    rmSync(folder, { recursive: true, force: true });
  };
  const ended = exited.then(([code]) => Promise.reject(new Error(`spearlet ended with ${code}`)));
  ended.catch(() => {});
  try {
    const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), ended])) as [string];
    const { http } = JSON.parse(line) as { http: string };
    const token = readFileSync(join(folder, 'data/submitter.token'), 'utf8').trim();
    return { run: (runs, lanes) => submitAndWait(http, token, runs, lanes), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function submitAndWait(url: string, token: string, runs: number, lanes: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: lanes });
  let begun = 0;
  const started = performance.now();
  const lane = async () => {
    while (begun++ < runs) {
      const headers = { authorization: `Bearer ${token}`, prefer: 'wait=60' };
      const sent = request(`${url}/v1/namespaces/default/tasks/hello/runs`, { method: 'POST', agent, headers }).end();
      const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream & { statusCode: number }];
      const said = await text(response);
      if (response.statusCode !== 200) throw new Error(`the node answered ${response.statusCode}: ${said}`);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  agent.destroy();
  return (performance.now() - started) / runs;
}
