import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Canaries } from '../../e2e/canaries.ts';
import type { Plant } from '../../e2e/canary-places.ts';
import type { Random } from '../random.ts';

const letters = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';

/** The secrets of one round, the folder that it lives in, and all that came out of it. */
export class Vault {
  readonly folder = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  readonly out: Record<string, string> = {};
  readonly #canaries = new Canaries();
  readonly places = new Set<string>();
  readonly #random: Random;
  #made = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Of all lengths and forms that a secret has; what is not plain also holds what is written differently elsewhere. */
  readonly plant: Plant = (place, plain = false) => {
    const length = this.#random.pick([16, 20, 32, 64, 200]);
    const text = Array.from({ length }, () => this.#random.pick([...letters])).join('');
    const odd = this.#random.pick(['/+=', '"\\', 'é', '%41', '$1', "' ;", '<&>', '\u{1f511}']);
    const value = plain
      ? `${this.#random.pick(['', 'sk-', 'ghp_', 'Zz.'])}${text}`
      : `${text}${odd}${text.slice(0, 6)}`;
    return this.know(place, value);
  };

  know(place: string, value: string): string {
    this.places.add(place);
    return this.#canaries.know(place, value);
  }

  /** For its owner alone. */
  file(name: string, content: string): string {
    const path = join(this.directory(), name);
    writeFileSync(path, content, { mode: 0o600 });
    return path;
  }

  directory(): string {
    const path = join(this.folder, String(++this.#made));
    mkdirSync(path, { mode: 0o700 });
    return path;
  }

  /** Everything below a folder as text: what a process leaves on disk is an output too. */
  keepFiles(what: string, folder: string, except: (path: string) => boolean = () => false): void {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile() && !except(path))
        this.out[`${what}: ${path.slice(folder.length)}`] = readFileSync(path, 'latin1');
    }
  }

  /** Where secrets came out. Both readings of bytes: files were kept as they are. */
  found(): string[] {
    const decoded = Object.entries(this.out).map(([name, text]): [string, string] => [
      `${name}, decoded`,
      Buffer.from(text, 'latin1').toString(),
    ]);
    const all = { ...this.out, ...Object.fromEntries(decoded) };
    return [...new Set(this.#canaries.foundIn(all))];
  }

  get bytes(): number {
    return Object.values(this.out).reduce((sum, text) => sum + text.length, 0);
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
