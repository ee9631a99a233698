import { type AuditKey, hashFound, hashSaid, NO_PREVIOUS, sha256 } from './chain.ts';
import { AUDIT_VERSION } from './event.ts';
import { parseLine, readLines } from './reader.ts';

export type ProblemKind = 'changed' | 'missing' | 'duplicated' | 'reordered' | 'cut' | 'foreign' | 'key';

/** The first line that is not what it should be. */
export interface TrailProblem {
  readonly file: string;
  readonly line: number;
  readonly kind: ProblemKind;
  readonly detail: string;
}

export interface VerifiedChain {
  readonly chain: string;
  readonly lines: number;
  readonly firstTs: string;
  readonly lastTs: string;
  /** The hash of its last line: kept elsewhere, it proves later that the chain went at least this far. */
  readonly head: string;
  /** The number of its first line here; above 0, older files are not there any more. */
  readonly from: number;
  /** False: its process still runs or was killed, or its last lines were taken away. */
  readonly ended: boolean;
  /** The id of the key that its lines are signed with; null: they are only hashed. */
  readonly keyId: string | null;
  /** False: it has a key that was not given, so only numbers and links were looked at. */
  readonly proved: boolean;
}

export interface VerifiedTrail {
  readonly problem: TrailProblem | null;
  readonly lines: number;
  readonly chains: readonly VerifiedChain[];
  /** Half lines that were repaired and marked. */
  readonly repaired: number;
  /** Lines that the trail itself says could not be written. */
  readonly lost: number;
  /** Events that the trail itself says were counted and not written. */
  readonly folded: number;
  /** Lines of an older version, which had no chain. */
  readonly unchained: number;
}

interface OpenChain {
  readonly chain: string;
  readonly from: number;
  readonly firstTs: string;
  readonly keyId: string | null;
  readonly proved: boolean;
  lastTs: string;
  lines: number;
  seq: number;
  hash: string;
  ended: boolean;
}

interface Place {
  readonly file: string;
  readonly line: number;
}

type Line = Readonly<Record<string, unknown>>;
type Complaint = Pick<TrailProblem, 'kind' | 'detail'>;

/**
 * Checks the files of a trail, oldest first, as one. What it finds: a line that was changed, taken out, put in, repeated
 * or moved. What no chain without a key can show: that all of it was written anew; and what none can show at all: that
 * its last lines were taken away. Given keys, every chain must be signed with one of them.
 * @throws the error of the system, if a file cannot be read
 */
export function verifyTrail(files: readonly string[], keys: readonly AuditKey[] = []): VerifiedTrail {
  const check = new TrailCheck(keys);
  for (const file of files) {
    for (const { number, text, isWhole } of readLines(file)) check.take({ file, line: number }, text, isWhole);
  }
  return check.result();
}

class TrailCheck {
  readonly #keys: readonly AuditKey[];
  readonly #chains = new Map<string, OpenChain>();
  #lines = 0;
  #repaired = 0;
  #lost = 0;
  #folded = 0;
  #unchained = 0;
  #problem: TrailProblem | null = null;
  /** A line that is no JSON: fine if the next one says that it was torn and marked. */
  #suspect: { readonly place: Place; readonly bytes: number; readonly sha256: string } | null = null;
  /** A gap that was found: if the line turns up later, it was moved and not taken away. */
  #gap: { readonly chain: string; readonly seq: number } | null = null;

  constructor(keys: readonly AuditKey[]) {
    this.#keys = keys;
  }

  take(place: Place, text: string, isWhole: boolean): void {
    if (text.trim() === '') return;
    const line = parseLine(text);
    this.#clearSuspect(line);
    if (line !== null) this.#lines++;
    if (this.#problem !== null) this.#lookForGap(line);
    else if (line !== null) this.#note(place, this.#check(line, text));
    else if (isWhole) this.#suspect = { place, ...digest(text) };
    else this.#note(place, cutLine);
  }

  result(): VerifiedTrail {
    this.#clearSuspect(null);
    return {
      problem: this.#problem,
      lines: this.#lines,
      chains: [...this.#chains.values()].map(({ seq: _, hash: head, ...chain }) => ({ ...chain, head })),
      repaired: this.#repaired,
      lost: this.#lost,
      folded: this.#folded,
      unchained: this.#unchained,
    };
  }

  #check(line: Line, text: string): Complaint | null {
    const { v, chain, seq } = line;
    if (v === 1 && chain === undefined && this.#chains.size === 0 && this.#keys.length === 0) {
      this.#unchained++;
      return null;
    }
    if (v !== AUDIT_VERSION || typeof chain !== 'string')
      return { kind: 'foreign', detail: 'the line belongs to no chain' };
    const known = this.#chains.get(chain);
    const said = hashSaid(text.trimStart());
    if (said === null || typeof seq !== 'number') return hashUnfit;
    const complaint = this.#prove(chain, known?.keyId ?? keyIdOf(line), text.trimStart(), said);
    if (complaint !== null) return complaint;
    const here = known ?? this.#begin(line, chain, seq);
    if (here === null) return this.#missing(chain, 0, seq);
    return this.#follow(here, line, seq, said);
  }

  #prove(chain: string, keyId: string | null, text: string, said: string): Complaint | null {
    const key = this.#keys.find(({ id }) => id === keyId) ?? null;
    if (key === null && this.#keys.length > 0) {
      const given = this.#keys.map(({ id }) => id).join(', ');
      const found = keyId === null ? 'has no key' : `is signed with key ${keyId}`;
      return { kind: 'key', detail: `chain ${chain} ${found}, but the given key is ${given}` };
    }
    if (key === null && keyId !== null) return null;
    return hashFound(text, key) === said ? null : hashUnfit;
  }

  /** The chain of its first line here; null if that cannot be a first one. */
  #begin(line: Line, chain: string, seq: number): OpenChain | null {
    const starts = seq === 0 && line.prev === NO_PREVIOUS;
    // Older files may have been removed in order; a chain says where it went on in a new one.
    if (!starts && line.event !== 'chain.rotated') return null;
    const [ts, hash] = [String(line.ts), String(line.prev)];
    const keyId = keyIdOf(line);
    const proved = keyId === null || this.#keys.length > 0;
    const begun = {
      chain,
      from: seq,
      firstTs: ts,
      lastTs: ts,
      keyId,
      proved,
      lines: 0,
      seq: seq - 1,
      hash,
      ended: false,
    };
    this.#chains.set(chain, begun);
    return begun;
  }

  #follow(known: OpenChain, line: Line, seq: number, hash: string): Complaint | null {
    const { chain } = known;
    if (seq <= known.seq) return { kind: 'duplicated', detail: `line ${seq} of chain ${chain} occurs twice` };
    if (known.ended) return { kind: 'foreign', detail: `chain ${chain} ended before this line` };
    if (seq > known.seq + 1) return this.#missing(chain, known.seq + 1, seq);
    if (line.prev !== known.hash) {
      return { kind: 'changed', detail: `prev does not match the hash of the previous line of chain ${chain}` };
    }
    known.seq = seq;
    known.hash = hash;
    known.lines++;
    known.lastTs = String(line.ts);
    known.ended = line.event === 'chain.ended';
    if (line.event === 'chain.repaired') this.#repaired++;
    if (line.event === 'chain.lost') this.#lost += Number(line.lines);
    if (line.event === 'events.folded') this.#folded += Number(line.count);
    return null;
  }

  #missing(chain: string, from: number, to: number): Complaint {
    this.#gap = { chain, seq: from };
    const lines = to - from === 1 ? '1 line' : `${to - from} lines`;
    return { kind: 'missing', detail: `${lines} of chain ${chain} missing before this line` };
  }

  #clearSuspect(next: Line | null): void {
    const suspect = this.#suspect;
    // How the chain came to this file stands before what it found there.
    if (suspect === null || next?.event === 'chain.started' || next?.event === 'chain.rotated') return;
    this.#suspect = null;
    const marked =
      next?.event === 'chain.repaired' && next.torn_bytes === suspect.bytes && next.torn_sha256 === suspect.sha256;
    if (!marked) this.#note(suspect.place, { kind: 'changed', detail: 'the line is not a JSON object' });
  }

  #lookForGap(line: Line | null): void {
    const gap = this.#gap;
    if (gap === null || line?.chain !== gap.chain || line.seq !== gap.seq || this.#problem === null) return;
    this.#gap = null;
    const detail = `line ${gap.seq} of chain ${gap.chain} belongs before this line but comes after it`;
    this.#problem = { ...this.#problem, kind: 'reordered', detail };
  }

  #note(place: Place, complaint: Complaint | null): void {
    if (complaint !== null) this.#problem ??= { ...place, ...complaint };
  }
}

const hashUnfit: Complaint = { kind: 'changed', detail: 'the hash does not match the text of the line' };

const keyIdOf = (line: Line): string | null => (typeof line.key_id === 'string' ? line.key_id : null);

const cutLine: Complaint = {
  kind: 'cut',
  detail: 'the file ends in the middle of this line; the next process that appends to the file repairs and marks it',
};

function digest(text: string): { readonly bytes: number; readonly sha256: string } {
  const bytes = Buffer.from(text);
  return { bytes: bytes.byteLength, sha256: sha256(bytes) };
}
