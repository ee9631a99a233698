// Bundles one file per entry point into dist/, and links the commands so that npx finds them in a checkout.
// Does nothing while the files that dist/ was built from are unchanged.
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
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { buildConsole } from './build-console.ts';
import { inputHash, isBuildCurrent, recordInputs } from './build-inputs.ts';
import { keepReachableTypes } from './reachable-types.ts';
import { thirdPartyNotices } from './third-party.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist');
const entries = {
  'spear-run': 'src/cli/run/entry.ts',
  'spear-sms': 'src/cli/sms/entry.ts',
  spearlet: 'src/cli/spearlet/entry.ts',
  spear: 'src/cli/spear/entry.ts',
  'guest-worker': 'src/runtime/guest/worker.ts',
  'turn-clock': 'src/runtime/host/preemption-clock-thread.ts',
  'transpile-worker': 'src/runtime/wasm/component/transpile-worker.ts',
  'audit-thread': 'src/server/audit/thread.ts',
  'schema-thread': 'src/agent/mcp/client/schema/thread.ts',
  index: 'src/index.ts',
};

const packages = join(root, 'node_modules');
const jco = join(packages, '@bytecodealliance/jco-transpile/vendor');

/** Used by nearly every part of a command. */
const floor = { name: 'floor', test: /[\\/]src[\\/](?:base|server[\\/]secrets|config[\\/]config-error)/ };

if (isBuildCurrent(root)) console.log('dist/ is up to date');
else await build();
linkCommands();

async function build(): Promise<void> {
  const hash = inputHash(root);
  // Built aside and moved into place at the end: a command that runs meanwhile never finds half a build.
  const fresh = mkdtempSync(join(root, '.dist-'));
  /** Files of packages that go into dist/. */
  const bundled = new Set<string>();

  // One build per entry: what an entry always needs is one file, since every further file costs start-up time.
  for (const [name, file] of Object.entries(entries)) {
    const bundle = await rolldown({
      cwd: root,
      input: { [name]: join(root, file) },
      platform: 'node',
      // The library loads at once what the commands load when they need it.
      checks: { ineffectiveDynamicImport: false },
      // undici and the MCP client stay packages: they are large, and loaded only when a guest needs them.
      external: [/^node:/, 'undici', /^@modelcontextprotocol\//, 'ajv', /^ajv\//, 'pino'],
      // Native helpers of `ws` that are not here: it looks for them unless it is told not to.
      transform: { define: { 'process.env.WS_NO_BUFFER_UTIL': '"1"', 'process.env.WS_NO_UTF_8_VALIDATE': '"1"' } },
      // "use components" stands above jco's own code, and means nothing to Node.
      onLog: (level, log, write) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && write(level, log),
      // jco asks for no files and no network, so it gets the form of its WASI that starts no thread and has no native part.
      // The form of jsonc-parser that Node would load hides its own files from a bundler.
      resolve: {
        alias: {
          '@bytecodealliance/preview2-shim': join(packages, '@bytecodealliance/preview2-shim/dist/browser'),
          'jsonc-parser': join(packages, 'jsonc-parser/lib/esm/main.js'),
        },
      },
    });
    // Commands and threads are CommonJS, which Node starts 10–20 ms sooner than modules; the library is a module.
    const [format, extension] = name === 'index' ? (['esm', 'js'] as const) : (['cjs', 'cjs'] as const);
    const { output } = await bundle.write({
      dir: fresh,
      format,
      entryFileNames: `[name].${extension}`,
      chunkFileNames: `${name}-[name]-[hash].${extension}`,
      // What an entry and its later parts share would be a file for each of them; every file costs start-up time.
      ...(name.startsWith('spear') ? { codeSplitting: { groups: [floor] } } : {}),
    });
    for (const part of output) if (part.type === 'chunk') for (const id of part.moduleIds) bundled.add(id);
    await bundle.close();
  }

  for (const id of await buildConsole(root, fresh)) bundled.add(id);

  // Read at run time by what was bundled: the modules of jco, and the adapters of `spear componentize`. Bundled and not
  // depended on, because the packages that bring them are far too large.
  const wasm = [
    ...['js-component-bindgen-component', 'wasm-tools'].flatMap((name) =>
      ['core', 'core2'].map((part) => join(jco, `${name}.${part}.wasm`)),
    ),
    ...['command', 'reactor'].map((kind) =>
      join(packages, '@bytecodealliance/jco/lib', `wasi_snapshot_preview1.${kind}.wasm`),
    ),
  ];
  for (const file of wasm) {
    copyFileSync(file, join(fresh, basename(file)));
    bundled.add(file);
  }
  writeFileSync(join(fresh, 'THIRD-PARTY.txt'), thirdPartyNotices(bundled));

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
  keepReachableTypes(join(fresh, 'types'), 'index.d.ts');
  chmodSync(fresh, 0o755);
  const old = `${fresh}-old`;
  if (existsSync(dist)) renameSync(dist, old);
  renameSync(fresh, dist);
  rmSync(old, { recursive: true, force: true });
  recordInputs(root, hash);
}

/** npm links the commands of packages it installs, not those of the checkout itself. */
function linkCommands(): void {
  const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { bin: Record<string, string> };
  const links = join(root, 'node_modules', '.bin');
  mkdirSync(links, { recursive: true });
  for (const [name, file] of Object.entries(bin)) {
    chmodSync(join(root, file), 0o755);
    if (process.platform === 'win32') continue; // npx finds the bin by itself there, more slowly
    rmSync(join(links, name), { force: true });
    symlinkSync(join('..', '..', file), join(links, name));
  }
}
