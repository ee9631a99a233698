import type { JsonObject } from '../../base/json.ts';

/** `skipped`: not reached, left out on purpose, or something to know that is not wrong. */
export type FindingStatus = 'ok' | 'bad' | 'skipped';

/** One thing that was looked at when something does not work. Never holds a secret. */
export interface Finding {
  /** What it is: `node`, `module`, `task`, `registry`, `server`, `tool`, … Part of the JSON output. */
  readonly what: string;
  readonly status: FindingStatus;
  readonly text: string;
  /** Why, as one word of a fixed set; null where nothing is wrong. Part of the JSON output. */
  readonly cause: string | null;
  /** What to do about it; null where nothing is wrong, or it follows from another finding. */
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

/** Every finding that is wrong itself, in the order of the tree. */
export function badOnes(findings: readonly Finding[]): Finding[] {
  return findings.flatMap((finding) => [...(finding.status === 'bad' ? [finding] : []), ...badOnes(finding.children)]);
}

export function findingJson({ what, status, text, cause, fix, children }: Finding): JsonObject {
  return { what, status, text, cause, fix, children: children.map(findingJson) };
}
