import { createHmac, hash } from 'node:crypto';
import { AUDIT_VERSION } from './event.ts';

/** What stands where the hash of the line before would be, in the first line of a chain. */
export const NO_PREVIOUS = '0'.repeat(64);

/** How every line ends; what is before it, closed by a brace, is what was hashed. */
const ending = /,"hash":"([0-9a-f]{64})"\}$/;
const ENDING_CHARS = ',"hash":""}'.length + 64;

/** Where a chain stands after a line. */
export interface ChainPosition {
  readonly seq: number;
  readonly hash: string;
}

/** A line, and where the chain stands after it. */
export interface ChainLine extends ChainPosition {
  readonly text: string;
}

export function sha256(text: string | Uint8Array): string {
  return hash('sha256', text); // in one go: half the time of a Hash object, twice for every tool call
}

/** With a key nobody without it can make a line, or a chain, that passes for one of ours. */
function digestOf(text: string, key: AuditKey | null): string {
  return key === null ? sha256(text) : createHmac('sha256', key.bytes).update(text).digest('hex');
}

/** The lines of one process: numbered, each with the hash of the one before. */
export class AuditChain {
  readonly id: string;
  readonly #key: AuditKey | null;
  #last: ChainPosition = { seq: -1, hash: NO_PREVIOUS };

  constructor(id: string, key: AuditKey | null) {
    this.id = id;
    this.#key = key;
  }

  get isEmpty(): boolean {
    return this.#last.seq < 0;
  }

  /**
   * The given events (JSON texts of objects) as lines that follow what was kept. Nothing is kept until {@link keep}: a line
   * that did not reach the disk is no part of the chain.
   */
  lines(events: readonly string[]): ChainLine[] {
    let { seq, hash } = this.#last;
    return events.map((event) => {
      seq += 1;
      const hashed = `{"v":${AUDIT_VERSION},"chain":"${this.id}","seq":${seq},${event.slice(1, -1)},"prev":"${hash}"}`;
      hash = digestOf(hashed, this.#key);
      return { text: `${hashed.slice(0, -1)},"hash":"${hash}"}\n`, seq, hash };
    });
  }

  /** The line is on the disk, and with it those before. */
  keep({ seq, hash }: ChainLine): void {
    this.#last = { seq, hash };
  }
}

/** The hash that a line says it has; null if it says none. */
export function hashSaid(line: string): string | null {
  return ending.exec(line)?.[1] ?? null;
}

/** The hash that a line has which says one. */
export function hashFound(line: string, key: AuditKey | null): string {
  return digestOf(`${line.slice(0, -ENDING_CHARS)}}`, key);
}

/** What the lines of a chain are signed with. */
export interface AuditKey {
  readonly id: string;
  readonly bytes: Uint8Array;
}

const ID_CHARS = 16;

/** The key of a text. Its id is the same for the same text, and does not give it away. */
export function auditKey(text: string): AuditKey {
  const bytes = new TextEncoder().encode(text);
  const id = createHmac('sha256', bytes).update('the id of a key of a spear trail').digest('hex').slice(0, ID_CHARS);
  return Object.freeze({ id, bytes });
}
