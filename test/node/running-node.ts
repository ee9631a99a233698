import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { flagWords } from '../../src/cli/run/registry-flags.ts';
import { loadHostConfig } from '../../src/config/host/host-config.ts';
import { type SpearletOptions, startSpearlet } from '../../src/node/node.ts';

const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));

export interface RunningNode {
  readonly url: string;
  readonly folder: string;
  /** The content of a token file. */
  token(name?: string): string;
  /** A request, by default as the admin. */
  ask(
    method: string,
    path: string,
    options?: { body?: string | Uint8Array; token?: string; headers?: Record<string, string> },
  ): Promise<{ readonly status: number; readonly text: string; readonly headers: Headers }>;
  close(): Promise<void>;
}

/** A node in this process with the tasks `hello` and `echo`; it ends with the test. `config`: TOML. */
export async function runningNode(
  config = '',
  options: Partial<Pick<SpearletOptions, 'registry' | 'queue'>> = {},
): Promise<RunningNode> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-node-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'tasks.d'));
  for (const name of ['hello', 'echo']) {
    const task = `name = "${name}"\nwasm = ${JSON.stringify(fixture(`c/${name}.wasm`))}\n`;
    writeFileSync(join(folder, 'tasks.d', `${name}.toml`), task);
  }
  writeFileSync(join(folder, 'config.toml'), config.replaceAll('FOLDER', folder));
  const host = await loadHostConfig({ file: join(folder, 'config.toml'), env: process.env });
  const data = join(folder, 'data');
  const node = await startSpearlet({
    ...{ host, data, listen: '127.0.0.1:0', slots: 2, queue: null, strict: true },
    taskDir: options.registry?.sms === undefined ? join(folder, 'tasks.d') : null,
    registry: { directory: undefined, sms: undefined },
    words: flagWords,
    log: () => {},
    ...options,
  });
  onTestFinished(() => node.close());
  const token = (name = 'admin') => readFileSync(join(data, `${name}.token`), 'utf8').trim();
  return {
    ...{ url: node.url, folder, token },
    async ask(method, path, { body, token: given = token(), headers = {} } = {}) {
      const init = { method, headers: { authorization: `Bearer ${given}`, ...headers } };
      const answer = await fetch(`${node.url}${path}`, body === undefined ? init : { ...init, body });
      return { status: answer.status, text: await answer.text(), headers: answer.headers };
    },
    close: () => node.close(),
  };
}
