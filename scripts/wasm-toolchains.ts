import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export type Language = 'c' | 'assemblyscript' | 'wat';

/** Turns one source file into one module. Its error message is what the compiler said. */
export type Compile = (source: string, output: string) => Promise<void>;

export interface Toolchain {
  readonly title: string;
  readonly install: string;
  /** Undefined when it is not on this machine. */
  find(): Promise<Compile | undefined>;
}

/** Far above what one small file takes; a compiler that hangs must not hang the build. */
const COMPILE_TIMEOUT_MS = 120_000;

const root = fileURLToPath(new URL('..', import.meta.url));
const assemblyScriptFolder = join(root, 'guest-examples', 'assemblyscript');

function run(command: string, args: readonly string[], cwd: string): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd, timeout: COMPILE_TIMEOUT_MS }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${stderr}${stdout}`.trim() || error.message));
      else resolve();
    });
  });
}

const runNode = (script: string, args: readonly string[], cwd: string) => run(process.execPath, [script, ...args], cwd);

/** The one that built the fixtures first: another version builds guests that work, but other bytes. */
const clangs = ['clang-19', 'clang-20', 'clang-21', 'clang'];

/** Debian keeps wasi-libc under /usr; wasi-sdk has a folder of its own. */
function sysroots(): string[] {
  const sdk = process.env.WASI_SDK_PATH;
  return sdk ? [join(sdk, 'share', 'wasi-sysroot')] : ['/usr', '/opt/wasi-sdk/share/wasi-sysroot'];
}

/** The sources say which of them are libraries of exports rather than programs. */
const isReactor = (source: string) => source.endsWith('json.c');

function clangArgs(sysroot: string, source: string, output: string): string[] {
  return [
    '--target=wasm32-wasi',
    `--sysroot=${sysroot}`,
    '-Oz',
    '-Wall',
    '-Wextra',
    '-Werror',
    ...(isReactor(source) ? ['-mexec-model=reactor'] : []),
    '-Wl,--export-table',
    '-Wl,--strip-debug', // the name section stays: it is what makes a wasm stack readable
    source,
    '-lc-printscan-no-floating-point', // no guest here prints a float; 5 KiB less in each
    '-o',
    output,
  ];
}

async function findClang(): Promise<Compile | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'spear-clang-'));
  try {
    const probe = join(folder, 'probe.c');
    await writeFile(probe, '#include <stdio.h>\nint main(void) { puts("x"); return 0; }\n');
    for (const clang of clangs) {
      for (const sysroot of sysroots()) {
        const works = await run(clang, clangArgs(sysroot, probe, join(folder, 'probe.wasm')), folder).then(
          () => true,
          () => false,
        );
        // Compiled from its own folder, so that no path of this machine can get into a module.
        if (works) return (source, output) => run(clang, clangArgs(sysroot, source, output), dirname(source));
      }
    }
    return undefined;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The file of a package's command, or undefined if the package is not installed. */
function packageFile(name: string, path: string): string | undefined {
  try {
    return join(dirname(fileURLToPath(import.meta.resolve(name))), path);
  } catch {
    return undefined;
  }
}

async function findAsc(): Promise<Compile | undefined> {
  const asc = packageFile('assemblyscript', '../bin/asc.js');
  if (!asc) return undefined;
  return (source, output) =>
    runNode(asc, [source, '--config', 'asconfig.json', '--outFile', output], assemblyScriptFolder);
}

async function findWasmAs(): Promise<Compile | undefined> {
  const wasmAs = packageFile('binaryen', 'bin/wasm-as');
  if (!wasmAs) return undefined;
  return (source, output) =>
    runNode(wasmAs, ['--enable-exception-handling', '--debuginfo', source, '--output', output], root);
}

export const toolchains: Readonly<Record<Language, Toolchain>> = {
  c: {
    title: 'clang with wasi-libc',
    install: 'apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 (elsewhere: wasi-sdk, WASI_SDK_PATH=its folder)',
    find: findClang,
  },
  assemblyscript: { title: 'asc of AssemblyScript', install: 'npm ci', find: findAsc },
  wat: { title: 'wasm-as of binaryen', install: 'npm ci (it comes with AssemblyScript)', find: findWasmAs },
};
