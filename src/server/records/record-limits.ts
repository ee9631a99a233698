import { patternLimits } from '../../runtime/port/policy-layers.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

export interface BudgetRange {
  readonly default: number;
  readonly min: number;
  readonly max: number;
}

/** A missing or zero budget means its default. */
export const budgetRanges = {
  tool_timeout_ms: { default: 8_000, min: 100, max: 3_600_000 },
  max_tool_timeout_ms: { default: 0, min: 100, max: 3_600_000 },
  max_concurrency: { default: 8, min: 1, max: 1_024 },
  max_tool_output_bytes: { default: 64 * KIB, min: 1, max: 10 * MIB },
  connect_timeout_ms: { default: 60_000, min: 100, max: 600_000 },
} as const satisfies Record<string, BudgetRange>;

/** Sizes of a record. They are far above any real server and keep one record from filling a store or a message. */
export const recordLimits = {
  /** The whole record as compact JSON. */
  recordBytes: 64 * KIB,
  displayNameChars: 128,
  prefixChars: 128,
  pathChars: 4_096,
  args: 128,
  argChars: 16 * KIB,
  envEntries: 128,
  envNameChars: 256,
  valueChars: 16 * KIB,
  headers: 64,
  headerNameChars: 256,
  urlChars: 4_096,
  clientIdChars: 1_024,
  scopes: 64,
  scopeChars: 256,
  ...patternLimits,
  tags: 64,
  tagChars: 64,
  sandboxPaths: 64,
  pins: 512,
  toolNameChars: 256,
  roots: 64,
  rootNameChars: 128,
} as const;
