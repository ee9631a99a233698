import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { RegistryOptions, RegistryWords } from '../../run/open-registry.ts';
import { knownSecrets } from '../../server/secrets/redactor.ts';
import { printable } from '../formatting.ts';

/** `skipped`: not reached, left out on purpose, or information only. */
export type FindingStatus = 'ok' | 'bad' | 'skipped';

/** Result of one check of a diagnosis. Never holds a secret. */
export interface Finding {
  /** Subject of the check: `node`, `module`, `task`, `registry`, `server`, `tool`, … Part of the JSON output. */
  readonly what: string;
  readonly status: FindingStatus;
  readonly text: string;
  /** Code of the problem; null: no problem. Part of the JSON output. */
  readonly cause: string | null;
  /** Fix; null: no problem, or a consequence of another finding. */
  readonly fix: string | null;
  readonly children: readonly Finding[];
}

export function ok(what: string, text: string, children: readonly Finding[] = []): Finding {
  return { what, status: 'ok', text, cause: null, fix: null, children };
}

export function bad(
  what: string,
  text: string,
  about: { readonly cause: string; readonly fix: string; readonly children?: readonly Finding[] },
): Finding {
  const { cause, fix, children = [] } = about;
  return { what, status: 'bad', text, cause, fix, children };
}

export function skipped(
  what: string,
  text: string,
  about: { readonly cause?: string; readonly fix?: string; readonly children?: readonly Finding[] } = {},
): Finding {
  const { cause = null, fix = null, children = [] } = about;
  return { what, status: 'skipped', text, cause, fix, children };
}

export function isBad(finding: Finding): boolean {
  return finding.status === 'bad' || finding.children.some(isBad);
}

/** Findings with a problem of their own, in the order of the tree. */
export function badOnes(findings: readonly Finding[]): Finding[] {
  return findings.flatMap((finding) => [...(finding.status === 'bad' ? [finding] : []), ...badOnes(finding.children)]);
}

export function findingJson({ what, status, text, cause, fix, children }: Finding): JsonObject {
  return { what, status, text, cause, fix, children: children.map(findingJson) };
}

const marks: Readonly<Record<FindingStatus, string>> = { ok: '✓', bad: '✗', skipped: '–' };
const colours: Readonly<Record<FindingStatus, string>> = { ok: '\x1b[32m', bad: '\x1b[31m', skipped: '\x1b[2m' };
const RESET = '\x1b[0m';

/** Longest list of similar findings in text; JSON has all. */
const SHOWN_ALIKE = 40;

export interface ReportStyle {
  /** Colours, for a terminal only. */
  readonly colours: boolean;
}

/** The findings as a tree; the fix is below each problem. Control characters are escaped. */
export function reportText(findings: readonly Finding[], summary: string, style: ReportStyle): string {
  const lines = findings.flatMap((finding) => tree(finding, '', '', style));
  return knownSecrets.redact(`${[...lines, '', summary].join('\n')}\n`);
}

export function reportJson(findings: readonly Finding[], more: Readonly<Record<string, boolean | string>>): string {
  return knownSecrets.redact(`${JSON.stringify({ ...more, findings: findings.map(findingJson) })}\n`);
}

/** Counts distinct causes: a consequence has no fix of its own, and equal fixes count once. */
export function summaryOf(findings: readonly Finding[]): string {
  const own = badOnes(findings).filter(({ fix, children }) => fix !== null && !children.some(isBad));
  const wrong = new Set(own.map(({ cause, fix }) => `${cause}: ${fix}`)).size;
  if (wrong === 0) return 'no problems found';
  return `${wrong} ${wrong === 1 ? 'problem' : 'problems'} found`;
}

function tree(finding: Finding, lead: string, indent: string, style: ReportStyle): string[] {
  const { status, text, fix } = finding;
  const mark = style.colours ? `${colours[status]}${marks[status]}${RESET}` : marks[status];
  const children = shortened(finding.children);
  const below = children.length > 0 ? '│ ' : '  ';
  const lines = [`${lead}${mark} ${printable(text)}`];
  // A tool that policy excludes is not a problem; its fix is only in the JSON.
  if (fix !== null && (status === 'bad' || finding.what !== 'tool'))
    lines.push(`${indent}${below}fix: ${printable(fix)}`);
  for (const [index, child] of children.entries()) {
    const last = index === children.length - 1;
    lines.push(...tree(child, `${indent}${last ? '└ ' : '├ '}`, `${indent}${last ? '  ' : '│ '}`, style));
  }
  return lines;
}

function shortened(children: readonly Finding[]): readonly Finding[] {
  const calm = children.filter(({ status }) => status !== 'bad');
  if (calm.length <= SHOWN_ALIKE) return children;
  const hidden = new Set(calm.slice(SHOWN_ALIKE));
  const text = `… and ${hidden.size} more; --json has them all`;
  const rest: Finding = { what: 'more', status: 'skipped', text, cause: null, fix: null, children: [] };
  return [...children.filter((child) => !hidden.has(child)), rest];
}

/** Input of a diagnosis: the flags that `spear doctor` and `spear explain` share. */
export interface DiagnosisFlags {
  readonly registry: RegistryOptions;
  /** Names of these options in messages. */
  readonly words: RegistryWords;
  readonly taskConfig: string | undefined;
  readonly config: string | undefined;
  /** SET_PARAMs that the guest is assumed to make. */
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
  /** Timeout of each step. */
  readonly timeoutMs: number;
  readonly json: boolean;
}
