import type { Role } from './permissions.ts';
import type { StoreStamps } from './record-kind.ts';

/** One text that is valid for a token. The text itself is kept nowhere. */
export interface TokenSecret {
  /** The sha256 of the text, in hex. */
  readonly digest: string;
  readonly created_at_ms: number;
  /** Null: as long as the token. */
  readonly expires_at_ms: number | null;
}

/** Somebody, or a program, that a registry knows by a token. */
export interface TokenRecord extends StoreStamps {
  readonly name: string;
  readonly description: string;
  readonly roles: readonly Role[];
  /** The only one that it may name; `*`: all. */
  readonly namespace: string;
  readonly read_journals: boolean;
  readonly created_at_ms: number;
  /** The name of who made it. */
  readonly created_by: string;
  /** The person whom it belongs to: one vote on approvals. Absent in tokens of earlier versions. */
  readonly person?: string | null;
  /** The namespace of its creator; `*`: all. Absent in tokens of earlier versions. */
  readonly created_in?: string | null;
  /** The last rotation by another user, who knew the text of that time. */
  readonly rotated_by?: { readonly name: string; readonly at_ms: number } | null;
  /** Null: no end. */
  readonly expires_at_ms: number | null;
  /** The newest first: while a new one is handed out, the one before it is valid too. */
  readonly secrets: readonly TokenSecret[];
}

/** When a token was last used: apart from the token, which does not change by being used. */
export interface TokenUse extends StoreStamps {
  readonly name: string;
  readonly last_used_at_ms: number;
}

export const tokenLimits = {
  descriptionChars: 256,
  /** Valid together. */
  secrets: 4,
} as const;
