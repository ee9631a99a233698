// Writes src/generated/proto/ from src/server/records/proto/. An argument names another folder to write to.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = resolve(process.argv[2] ?? join(root, 'src/generated/proto'));
const commands = join(root, 'node_modules/.bin');

const template = {
  version: 'v2',
  plugins: [{ local: 'protoc-gen-es', out, opt: ['target=ts', 'erasable_syntax=true', 'import_extension=ts'] }],
};

rmSync(out, { recursive: true, force: true });
const buf = spawnSync(
  join(commands, 'buf'),
  ['generate', join(root, 'src/server/records/proto'), '--template', JSON.stringify(template)],
  { stdio: 'inherit', env: { ...process.env, PATH: `${commands}${delimiter}${process.env.PATH ?? ''}` } },
);
if (buf.error) console.error(`cannot start buf: ${buf.error.message}`);
process.exitCode = buf.status ?? 1;
