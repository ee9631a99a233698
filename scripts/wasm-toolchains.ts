import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { componentize, witFile } from '../src/cli/componentize.ts';
import { findRust, rustInstall } from './rust-toolchain.ts';

export type Language = 'c' | 'assemblyscript' | 'javascript' | 'rust' | 'wat';
export type Form = 'core' | 'component';

/** Turns one source file into one module or component. Its error message is what the compiler said. */
export type Compile = (source: string, output: string, form: Form) => Promise<void>;

export interface Toolchain {
  readonly title: string;
  readonly install: string;
  /** Whether the same source gives the same bytes; if not, fixtures/LANGUAGE/SOURCES.json tells what they were built from. */
  readonly reproducible: boolean;
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

const componentizeFile = async (file: string) => writeFile(file, await componentize(await readFile(file)));

/** The one that built the fixtures first: another version builds guests that work, but other bytes. */
const clangs = ['clang-19', 'clang-20', 'clang-21', 'clang'];

/** Debian keeps wasi-libc under /usr; wasi-sdk has a folder of its own. */
function sysroots(): string[] {
  const sdk = process.env.WASI_SDK_PATH;
  return sdk ? [join(sdk, 'share', 'wasi-sysroot')] : ['/usr', '/opt/wasi-sdk/share/wasi-sysroot'];
}

/** A library of exports rather than a program: spear-component.h exports `run`, which calls `main`. */
const isReactor = (source: string, form: Form) =>
  source.endsWith('json.c') || (form === 'component' && readFileSync(source, 'utf8').includes('#include "spear.h"'));

/** wasi-libc comes without a library of C++: what needs one (exceptions, type information, `new`) is left out. */
const cppFlags = (source: string) => (source.endsWith('.cpp') ? ['-std=c++20', '-fno-exceptions', '-fno-rtti'] : []);

/**
 * Compiled and linked in two steps: with -O at link time clang runs whatever wasm-opt is in the PATH, so that bytes would depend
 * on the machine and the names would be gone. Relative sources keep the paths of the machine out of a module.
 */
async function clangBuild(clang: string, sysroot: string, source: string, output: string, form: Form): Promise<void> {
  const target = ['--target=wasm32-wasi', `--sysroot=${sysroot}`];
  const object = `${output}.o`;
  const defined = form === 'component' ? ['-DSPEAR_COMPONENT'] : [];
  try {
    await run(
      clang,
      [
        ...target,
        ...defined,
        ...cppFlags(source),
        '-Oz',
        '-Wall',
        '-Wextra',
        '-Werror',
        '-c',
        basename(source),
        '-o',
        object,
      ],
      dirname(source),
    );
    await run(
      clang,
      [
        ...target,
        ...(isReactor(source, form) ? ['-mexec-model=reactor'] : []),
        ...(form === 'core' ? ['-Wl,--export-table'] : []), // what a tool callback is found in
        '-Wl,--strip-debug', // the name section stays: it is what makes a wasm stack readable
        object,
        '-lc-printscan-no-floating-point', // no guest here prints a float; 5 KiB less in each
        '-o',
        output,
      ],
      dirname(output),
    );
    if (form === 'component') await componentizeFile(output);
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
        const works = await clangBuild(clang, sysroot, probe, join(folder, 'probe.wasm'), 'core').then(
          () => true,
          () => false,
        );
        if (works) return (source, output, form) => clangBuild(clang, sysroot, source, output, form);
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
  const compile = (sources: readonly string[], config: string, output: string) =>
    runNode(asc, [...sources, '--config', config, '--outFile', output], assemblyScriptFolder);
  return async (source, output, form) => {
    if (form === 'core') return compile([source], 'asconfig.json', output);
    await compile([source, 'component-memory.ts'], 'asconfig.component.json', output);
    await componentizeFile(output);
  };
}

async function findComponentizeQjs(): Promise<Compile | undefined> {
  const found = await import('componentize-qjs').catch(() => undefined);
  if (!found) return undefined;
  return async (source, output) => {
    const { component } = await found.componentize({
      witPath: witFile(),
      world: 'task',
      jsSource: await readFile(source, 'utf8'),
      jsPath: source,
      moduleRoot: dirname(source),
      sync: true, // the other runtime makes asynchronous lifts of the next WASI
      optSize: true,
    });
    await writeFile(output, component);
  };
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
    reproducible: true,
    find: findClang,
  },
  assemblyscript: { title: 'asc of AssemblyScript', install: 'npm install', reproducible: true, find: findAsc },
  // The heap of the engine is part of what it builds.
  javascript: { title: 'componentize-qjs', install: 'npm install', reproducible: false, find: findComponentizeQjs },
  rust: { title: 'Rust for wasm32-unknown-unknown', install: rustInstall, reproducible: true, find: findRust },
  wat: {
    title: 'wasm-as of binaryen',
    install: 'npm install (it comes with AssemblyScript)',
    reproducible: true,
    find: findWasmAs,
  },
};
