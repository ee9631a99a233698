import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { requireBuild } from './built.ts';
import { KIND_SHIFT, MAX_STEPS } from './stepping-guest.ts';

const command = fileURLToPath(new URL('../../bin/spear-run.cjs', import.meta.url));
const slowWrites = fileURLToPath(new URL('../guard/slow-writes.cjs', import.meta.url));
const STAMP_BYTES = 8;
const STEP_TIMEOUT_MS = 60_000;

export interface GuestProcessOptions {
  readonly wasm: Uint8Array;
  /** Flags of spear-run; files may lie in the folder. */
  readonly flags?: (folder: GuestFolder) => string[];
  /** Makes it slower, to show that somebody notices. */
  readonly slow?: SlowWrites | null;
}

/** Processor time that every write to a pipe or a socket costs on top. */
export interface SlowWrites {
  readonly ns: number;
}

/** A folder that goes away with the guest. */
export interface GuestFolder {
  /** Writes a file and gives its path; an object is written as JSON. */
  file(name: string, content: string | Uint8Array | object): string;
  readonly path: string;
}

/** `spear-run` with a stepping guest, in a process of its own: the whole way, as a user has it. */
export class GuestProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #folder: string;
  readonly #chunks: Buffer[] = [];
  #stderr = '';
  #ended: string | null = null;
  #wake: () => void = () => {};

  constructor({ wasm, flags = () => [], slow = null }: GuestProcessOptions) {
    requireBuild();
    this.#folder = mkdtempSync(join(tmpdir(), 'spear-bench-'));
    const folder: GuestFolder = {
      path: this.#folder,
      file: (name, content) => {
        const path = join(this.#folder, name);
        mkdirSync(dirname(path), { recursive: true });
        const plain = typeof content === 'string' || content instanceof Uint8Array;
        writeFileSync(path, plain ? content : JSON.stringify(content));
        return path;
      },
    };
    const args = [command, folder.file('guest.wasm', wasm), ...flags(folder), '--limit', 'timeout_ms=600000'];
    const env = { PATH: process.env.PATH, HOME: this.#folder, ...(slow && { SLOW_WRITE_NS: String(slow.ns) }) };
    const preload = slow === null ? [] : ['--require', slowWrites];
    this.#child = spawn(process.execPath, [...preload, ...args], { stdio: ['pipe', 'pipe', 'pipe'], env });
    this.#child.stdin.on('error', () => {}); // its end is noticed below
    this.#child.stdout.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#wake();
    });
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.#child.once('close', (code, signal) => {
      this.#ended = `spear-run ended with ${code ?? signal}: ${this.#stderr.trim()}`;
      this.#wake();
    });
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error('spear-run could not be started');
    return this.#child.pid;
  }

  /** Lets the guest take steps of a kind; nanoseconds of each. */
  async steps(count: number, kind: 0 | 1 = 0): Promise<number[]> {
    if (count > MAX_STEPS) throw new Error(`a guest takes at most ${MAX_STEPS} steps at once`);
    const wanted = (count + 1) * STAMP_BYTES;
    this.#child.stdin.write(Buffer.from(Uint32Array.of(count | (kind << KIND_SHIFT)).buffer));
    const deadline = performance.now() + STEP_TIMEOUT_MS;
    let size = 0;
    for (;;) {
      size = this.#chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
      if (size >= wanted) break;
      if (this.#ended !== null) throw new Error(this.#ended);
      const left = deadline - performance.now();
      if (left <= 0)
        throw new Error(`the guest took longer than ${STEP_TIMEOUT_MS} ms for ${count} steps: ${this.#stderr}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const bytes = Buffer.concat(this.#chunks.splice(0));
    const stamps = Array.from({ length: count + 1 }, (_, index) => bytes.readBigUInt64LE(index * STAMP_BYTES));
    return stamps.slice(1).map((stamp, index) => Number(stamp - (stamps[index] as bigint)));
  }

  /** The end of its input ends the guest. */
  async close(): Promise<void> {
    this.#child.stdin.end();
    if (this.#ended === null) await once(this.#child, 'close');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
