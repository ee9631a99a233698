import { createHash, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import type { Submitter } from '../config/host/node.ts';
import { DEFAULT_NAMESPACE } from '../protocol/record.ts';
import { ensureToken, readTokenFile } from '../sms/token-files.ts';

/** `submitter`: may submit runs in its namespace and see them. `admin`: may do everything, everywhere. */
export type NodeRole = 'admin' | 'submitter';

/** Who calls. */
export interface NodeIdentity {
  readonly name: string;
  readonly role: NodeRole;
  /** Null: every one. */
  readonly namespace: string | null;
}

interface Known {
  readonly identity: NodeIdentity;
  readonly file: string;
  digests: readonly Buffer[];
}

const bearer = /^bearer +([^\s]+) *$/i;

/** The tokens of a node: files for their owner alone, made at the first start; a line each, all of them valid. */
export class NodeAccess {
  readonly #known: readonly Known[];
  readonly created: readonly string[];

  constructor(directory: string, submitters: readonly Submitter[]) {
    const all: Omit<Known, 'digests'>[] = [
      { identity: { name: 'admin', role: 'admin', namespace: null }, file: join(directory, 'admin.token') },
      {
        identity: { name: 'submitter', role: 'submitter', namespace: DEFAULT_NAMESPACE },
        file: join(directory, 'submitter.token'),
      },
      ...submitters.map(({ name, namespace, tokenFile }) => ({
        identity: { name, role: 'submitter' as const, namespace },
        file: tokenFile ?? join(directory, 'tokens', `${name}.token`),
      })),
    ];
    const created: string[] = [];
    for (const { file } of all) ensureToken(file, created);
    this.created = created;
    this.#known = all.map((known) => ({ ...known, digests: [] }));
    this.reload();
  }

  /** Reads the files again. @throws if one cannot be used; then all stays as it was */
  reload(): void {
    const read = this.#known.map(({ file }) => readTokenFile(file).map(digest));
    for (const [index, known] of this.#known.entries()) known.digests = read[index] ?? [];
  }

  identify(authorization: string | undefined): NodeIdentity | null {
    const token = bearer.exec(authorization ?? '')?.[1];
    if (token === undefined) return null;
    const given = digest(token);
    // All are compared, whatever the first one says: the time taken tells nothing.
    const matches = this.#known.filter(({ digests }) =>
      digests.reduce((found, known) => timingSafeEqual(given, known) || found, false),
    );
    return matches[0]?.identity ?? null;
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest();
