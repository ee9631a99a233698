import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
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

/** A library of exports rather than a program. */
const isReactor = (source: string) => source.endsWith('json.c');

/**
 * Compiled and linked in two steps: with -O at link time clang runs whatever wasm-opt is in the PATH, so that bytes would depend
 * on the machine and the names would be gone. Relative sources keep the paths of the machine out of a module.
 */
async function clangBuild(clang: string, sysroot: string, source: string, output: string): Promise<void> {
  const target = ['--target=wasm32-wasi', `--sysroot=${sysroot}`];
  const object = `${output}.o`;
  try {
    await run(
      clang,
      [...target, '-Oz', '-Wall', '-Wextra', '-Werror', '-c', basename(source), '-o', object],
      dirname(source),
    );
    await run(
      clang,
      [
        ...target,
        ...(isReactor(source) ? ['-mexec-model=reactor'] : []),
        '-Wl,--export-table', // what a tool callback is found in
        '-Wl,--strip-debug', // the name section stays: it is what makes a wasm stack readable
        object,
        '-lc-printscan-no-floating-point', // no guest here prints a float; 5 KiB less in each
        '-o',
        output,
      ],
      dirname(output),
    );
  } finally {
    await rm(object, { force: true });
  }
}

async function findClang(): Promise<Compile | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'spear-clang-'));
  try {
    const probe = join(folder, 'probe.c');
    await writeFile(probe, '#include <stdio.h>\nint main(void) { puts("x"); return 0; }\n');
    for (const clang of clangs) {
      for (const sysroot of sysroots()) {
        const works = await clangBuild(clang, sysroot, probe, join(folder, 'probe.wasm')).then(
          () => true,
          () => false,
        );
        if (works) return (source, output) => clangBuild(clang, sysroot, source, output);
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
    install:
      'apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 (elsewhere: wasi-sdk, WASI_SDK_PATH=its folder)',
    find: findClang,
  },
  assemblyscript: { title: 'asc of AssemblyScript', install: 'npm ci', find: findAsc },
  wat: { title: 'wasm-as of binaryen', install: 'npm ci (it comes with AssemblyScript)', find: findWasmAs },
};
