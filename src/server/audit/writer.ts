import { errorCode } from '../../base/errors.ts';
import { AuditChain, type AuditKey } from './chain.ts';
import type { AuditChainEvent, AuditOrigin } from './event.ts';
import { AuditFile, type AuditFileOptions } from './file.ts';
import { auditJson } from './line-json.ts';

/** What one write takes at most, unless one line alone is more: a full file is noticed between writes. */
const WRITE_CHARS = 262_144;
/** About what the chain adds to an event. */
const CHAIN_CHARS = 256;
/** More than can be waiting to be told, unless the disk fails over and over. */
const MAX_PENDING = 16;

export interface AuditWriterOptions extends AuditFileOptions {
  /** The id of the chain. */
  readonly chain: string;
  readonly startedAt: Date;
  readonly origin: Omit<AuditOrigin, 'keyed' | 'key_id'>;
  /** null: the chain has none. */
  readonly key: AuditKey | null;
}

interface PendingEvent {
  readonly event: AuditChainEvent;
  readonly at: Date;
}

/** Puts events into the chain and the chain onto the disk. Lines that cannot be written are counted and told of later. */
export class AuditWriter {
  readonly #chain: AuditChain;
  readonly #file: AuditFile;
  readonly #writeChars: number;
  readonly #origin: AuditOrigin;
  /** About the trail itself, still to be written. */
  #pending: readonly PendingEvent[];
  #lost = { lines: 0, reason: '' };
  #isEnding = false;

  constructor(options: AuditWriterOptions) {
    const { chain, origin, key, startedAt, maxBytes } = options;
    this.#chain = new AuditChain(chain, key);
    this.#file = new AuditFile(options);
    this.#origin = { ...origin, keyed: key !== null, key_id: key?.id ?? null };
    this.#writeChars = maxBytes === 0 ? WRITE_CHARS : Math.min(WRITE_CHARS, maxBytes);
    this.#pending = [{ event: { event: 'chain.started', ...this.#origin }, at: startedAt }];
  }

  /**
   * Appends events, which are JSON texts; `dropped` were lost before they came here. `onWrite` is called after each write.
   * The error: what failed, if anything.
   */
  append(events: readonly string[], dropped = 0, onWrite: () => void = () => {}): NodeJS.ErrnoException | null {
    if (dropped > 0) this.#lose(dropped, 'queue_full');
    let failure: NodeJS.ErrnoException | null = null;
    for (const part of inParts(events, this.#writeChars)) {
      failure = this.#try(part) ?? failure;
      onWrite();
    }
    return failure;
  }

  end(): NodeJS.ErrnoException | null {
    this.#isEnding = true;
    const error = this.append([]);
    this.#file.close();
    return error;
  }

  #try(events: readonly string[]): NodeJS.ErrnoException | null {
    try {
      return this.#append(events);
    } catch (error) {
      this.#lose(events.length, errorCode(error) ?? 'unknown');
      return error as NodeJS.ErrnoException;
    }
  }

  #append(events: readonly string[]): NodeJS.ErrnoException | null {
    const { switched, repair } = this.#file.prepare(sizeOf(events));
    if (switched && !this.#chain.isEmpty) this.#tell({ event: 'chain.rotated', ...this.#origin });
    if (repair) this.#tell(repair.event);
    const own = this.#allPending().map(({ event, at }) => auditJson(null, null, event, at));
    const lines = this.#chain.lines([...own, ...events]);
    const prefix = repair?.needsNewline ? '\n' : '';
    let texts = prefix;
    for (const { text } of lines) texts += text;
    const bytes = Buffer.from(texts);
    const { written, error } = this.#file.write(bytes);
    const count = written === bytes.byteLength ? lines.length : wholeLines(lines, written - prefix.length);
    const last = lines[count - 1];
    if (last !== undefined) this.#chain.keep(last);
    this.#settle(count, own.length, events.length, error);
    return error;
  }

  /** In the order of a chain: how it came here, what was lost on the way, its end. */
  #allPending(): PendingEvent[] {
    const at = new Date();
    const lost: PendingEvent[] = this.#lost.lines > 0 ? [{ event: { event: 'chain.lost', ...this.#lost }, at }] : [];
    const end: PendingEvent[] = this.#isEnding ? [{ event: { event: 'chain.ended' }, at }] : [];
    return [...this.#pending, ...lost, ...end];
  }

  #settle(kept: number, own: number, events: number, error: NodeJS.ErrnoException | null): void {
    if (kept > this.#pending.length) this.#lost = { lines: 0, reason: '' };
    this.#pending = this.#pending.slice(kept);
    const missing = events - Math.max(0, kept - own);
    if (missing > 0) this.#lose(missing, error?.code ?? 'unknown');
  }

  #lose(lines: number, reason: string): void {
    this.#lost = { lines: this.#lost.lines + lines, reason: this.#lost.reason || reason };
  }

  #tell(event: AuditChainEvent): void {
    if (this.#pending.length < MAX_PENDING) this.#pending = [...this.#pending, { event, at: new Date() }];
  }
}

/** How many lines are whole in so many bytes. */
function wholeLines(lines: readonly { readonly text: string }[], written: number): number {
  let end = 0;
  const cut = lines.findIndex(({ text }) => {
    end += Buffer.byteLength(text);
    return end > written;
  });
  return cut < 0 ? lines.length : cut;
}

const sizeOf = (events: readonly string[]) => events.reduce((sum, { length }) => sum + length + CHAIN_CHARS, 0);

/** At least one part, also of nothing: there may be something to tell of the trail itself. */
function inParts(events: readonly string[], writeChars: number): string[][] {
  const parts: string[][] = [[]];
  let size = 0;
  for (const event of events) {
    size += event.length + CHAIN_CHARS;
    if (size > writeChars && (parts.at(-1)?.length ?? 0) > 0) {
      parts.push([]);
      size = event.length + CHAIN_CHARS;
    }
    parts.at(-1)?.push(event);
  }
  return parts;
}
