import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { delimiter, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { componentize } from '../src/cli/componentize.ts';
import type { Compile, Form } from './wasm-toolchains.ts';

/** A first build compiles wit-bindgen, and with Debian's compiler the standard library, too. */
const BUILD_TIMEOUT_MS = 40 * 60_000;
/** rustup may have to download the compiler that rust-toolchain.toml names. */
const PROBE_TIMEOUT_MS = 10 * 60_000;

const target = 'wasm32-unknown-unknown';
const crate = join(fileURLToPath(new URL('..', import.meta.url)), 'guest-examples', 'rust');

/** A compiler that can build for wasm here. */
interface Rust {
  readonly cargo: string;
  /** `rustc 1.95.0 (…)` */
  readonly version: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

function output(command: string, args: readonly string[], env: NodeJS.ProcessEnv, timeout: number): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd: crate, env, timeout }, (error, stdout, stderr) => {
      if (error) reject(new Error(stderr.trim() || error.message));
      else resolve(stdout.trim());
    });
  });
}

/** Flags of whoever runs this would build other bytes. */
function environment(rust: Pick<Rust, 'env'>): NodeJS.ProcessEnv {
  const { RUSTFLAGS, CARGO_ENCODED_RUSTFLAGS, CARGO_TARGET_DIR, CARGO_BUILD_TARGET, ...rest } = process.env;
  return { ...rest, ...rust.env };
}

const path = () => (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');

/**
 * rustup's compilers bring a standard library for wasm. Debian's does not, but its source, and is allowed to compile it
 * with the name of a nightly.
 */
async function rustIn(folder: string): Promise<Rust | undefined> {
  const cargo = join(folder, 'cargo');
  const rustc = join(folder, 'rustc');
  if (!existsSync(cargo) || !existsSync(rustc)) return undefined;
  const ask = (...args: string[]) => output(rustc, args, environment({ env: {} }), PROBE_TIMEOUT_MS).catch(() => '');
  const version = await ask('--version');
  const library = await ask('--print', 'target-libdir', '--target', target);
  if (library !== '' && existsSync(library)) return { cargo, version, args: [], env: { RUSTC: rustc } };
  const source = join(await ask('--print', 'sysroot'), 'lib', 'rustlib', 'src', 'rust', 'library');
  const linker = path().some((place) => existsSync(join(place, 'wasm-ld')));
  if (!existsSync(source) || !linker) return undefined;
  return {
    cargo,
    version,
    args: ['-Zbuild-std=std,panic_abort'],
    env: { RUSTC: rustc, RUSTC_BOOTSTRAP: '1', RUSTFLAGS: '-Clinker=wasm-ld' },
  };
}

/** The first that needs no standard library built: it is quicker, and what built the fixtures. */
async function findCompiler(): Promise<Rust | undefined> {
  const found: Rust[] = [];
  for (const folder of new Set(path())) {
    const rust = await rustIn(folder);
    if (rust) found.push(rust);
  }
  return found.find(({ args }) => args.length === 0) ?? found[0];
}

/** All guests of one form at once: cargo shares what they have in common. Gives the folder of the modules. */
async function buildExamples(rust: Rust, form: Form): Promise<string> {
  const features = form === 'core' ? ['--no-default-features', '--features', 'core'] : [];
  const folder = join(crate, 'target', form);
  await output(
    rust.cargo,
    [
      'build',
      '--quiet',
      '--locked',
      '--release',
      '--examples',
      ...['--jobs', String(availableParallelism())],
      ...['--target', target, '--target-dir', folder],
      ...features,
      ...rust.args,
    ],
    environment(rust),
    BUILD_TIMEOUT_MS,
  );
  return join(folder, target, 'release', 'examples');
}

/** `tour.rs` and `test/sdk.rs` are the examples tour and test_sdk of Cargo.toml. */
const exampleName = (source: string) => relative(crate, source).replace(/\.rs$/, '').replaceAll(sep, '_');

/** The compiler that the fixtures were built with is in rust-toolchain.toml. */
async function warnOfOtherBytes({ version }: Rust): Promise<void> {
  const pinned = /^channel = "(.+)"$/m.exec(await readFile(join(crate, 'rust-toolchain.toml'), 'utf8'))?.[1];
  if (pinned === undefined || version.startsWith(`rustc ${pinned} `)) return;
  console.error(`${version} is not the ${pinned} of rust-toolchain.toml: the guests work, but their bytes differ`);
}

export async function findRust(): Promise<Compile | undefined> {
  const rust = await findCompiler();
  if (!rust) return undefined;
  await warnOfOtherBytes(rust);
  const builds = new Map<Form, Promise<string>>();
  return async (source, file, form) => {
    const build = builds.get(form) ?? buildExamples(rust, form);
    builds.set(form, build);
    const module = join(await build, `${exampleName(source)}.wasm`);
    if (form === 'core') await copyFile(module, file);
    else await writeFile(file, await componentize(await readFile(module)));
  };
}

export const rustInstall =
  'rustup (rustup.rs), which fetches the rest by guest-examples/rust/rust-toolchain.toml; or apt-get install rustc-web cargo-web rust-web-src lld';
