import { createHash } from 'node:crypto';

/** A tool as a node tells of it: its name, and the sha256 of what its server says of it, which a pin would hold. */
export interface ToolReport {
  readonly name: string;
  readonly definitionSha256: string;
}

/** The tools of one server. Named by what it holds, so that the same list of many nodes is told and kept once. */
export interface ToolListReport {
  readonly hash: string;
  /** Ordered by name. */
  readonly tools: readonly ToolReport[];
}

export function toolListReport(tools: readonly ToolReport[]): ToolListReport {
  const ordered = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1));
  return { hash: toolListHash(ordered), tools: ordered };
}

export function toolListHash(tools: readonly ToolReport[]): string {
  const text = JSON.stringify(tools.map(({ name, definitionSha256 }) => [name, definitionSha256]));
  return createHash('sha256').update(text).digest('hex');
}
