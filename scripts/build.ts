// Bundles one file per entry point into dist/, and links the commands so that npx finds them in a checkout.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');
// Built aside and put in place at the end: whoever runs what is there now never finds half of it.
const fresh = mkdtempSync(join(root, '.dist-'));

const entries = {
  'spear-run': 'src/cli/run/entry.ts',
  'spear-sms': 'src/cli/sms/entry.ts',
  spear: 'src/cli/spear/entry.ts',
  'guest-worker': 'src/guest/worker.ts',
  'transpile-worker': 'src/load/component/transpile-worker.ts',
  'audit-thread': 'src/audit/thread.ts',
  'schema-thread': 'src/pool/schema/thread.ts',
  index: 'src/index.ts',
};

// One build per entry: what an entry always needs is one file, since every further file costs start-up time.
for (const [name, file] of Object.entries(entries)) {
  const bundle = await rolldown({
    cwd: root,
    input: { [name]: join(root, file) },
    platform: 'node',
    // The library loads at once what the commands load when they need it.
    checks: { ineffectiveDynamicImport: false },
    // undici and the MCP client stay packages: they are large, and loaded only when a guest needs them.
    external: [/^node:/, 'undici', /^@modelcontextprotocol\//, 'ajv', /^ajv\//, 'pino', /^@bytecodealliance\//],
  });
  // Commands and threads are CommonJS, which Node starts 10–20 ms sooner than modules; the library is a module.
  const [format, extension] = name === 'index' ? (['esm', 'js'] as const) : (['cjs', 'cjs'] as const);
  await bundle.write({
    dir: fresh,
    format,
    entryFileNames: `[name].${extension}`,
    chunkFileNames: `${name}-[name]-[hash].${extension}`,
  });
  await bundle.close();
}

// For `spear componentize`; the package that brings them is far too large to be a dependency.
for (const kind of ['command', 'reactor']) {
  const adapter = `wasi_snapshot_preview1.${kind}.wasm`;
  copyFileSync(join(root, 'node_modules/@bytecodealliance/jco/lib', adapter), join(fresh, adapter));
}

const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
const types = spawnSync(
  process.execPath,
  [tsc, '-p', join(root, 'tsconfig.build.json'), '--outDir', join(fresh, 'types')],
  { stdio: 'inherit' },
);
if (types.status !== 0) {
  rmSync(fresh, { recursive: true, force: true });
  process.exit(types.status ?? 1);
}
chmodSync(fresh, 0o755);
const old = `${fresh}-old`;
if (existsSync(dist)) renameSync(dist, old);
renameSync(fresh, dist);
rmSync(old, { recursive: true, force: true });

const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { bin: Record<string, string> };
const links = join(root, 'node_modules', '.bin');
mkdirSync(links, { recursive: true });
for (const [name, file] of Object.entries(bin)) {
  chmodSync(join(root, file), 0o755);
  if (process.platform === 'win32') continue; // npx finds the bin by itself there, more slowly
  rmSync(join(links, name), { force: true });
  symlinkSync(join('..', '..', file), join(links, name));
}
