import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface BenchNode {
  text(method: string, path: string): Promise<string>;
  json<T>(method: string, path: string): Promise<T>;
  end(): Promise<void>;
}

/** A spearlet of its own with its data in a folder, and tasks by their names. */
export async function startBenchNode(
  folder: string,
  { tasks, config }: { readonly tasks: Readonly<Record<string, string>>; readonly config: string },
): Promise<BenchNode> {
  const files = { tasks: join(folder, 'tasks.d'), config: join(folder, 'config.toml'), data: join(folder, 'data') };
  mkdirSync(files.tasks, { recursive: true });
  for (const [name, text] of Object.entries(tasks)) writeFileSync(join(files.tasks, `${name}.toml`), text);
  writeFileSync(files.config, config);
  const where = ['--task-dir', files.tasks, '--data', files.data, '--config', files.config, '--listen', '127.0.0.1:0'];
  const child = spawn(process.execPath, [join(root, 'bin/spearlet.cjs'), ...where], {
    env: { HOME: folder },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  const line = once(createInterface(child.stdout), 'line') as Promise<[string]>;
  const ready = await Promise.race([line, exited.then(() => null)]);
  if (ready === null) throw new Error('the node ended before it was ready');
  const { http } = JSON.parse(ready[0]) as { http: string };
  const token = readFileSync(join(files.data, 'admin.token'), 'utf8').trim();
  const text = async (method: string, path: string) => {
    const response = await fetch(`${http}${path}`, { method, headers: { authorization: `Bearer ${token}` } });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.text();
  };
  return {
    text,
    json: async <T>(method: string, path: string) => JSON.parse(await text(method, path)) as T,
    end: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
