import { parseAst } from 'rolldown/parseAst';

/** A node of the ESTree that the parser gives; what it holds beyond these depends on its type. */
export interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly [key: string]: unknown;
}

export function parseTypeScript(text: string, lang: 'ts' | 'tsx' = 'ts'): SyntaxNode {
  return parseAst(text, { lang }) as unknown as SyntaxNode;
}

/** Every node below and including `value`, parents first. */
export function* nodesOf(value: unknown): Generator<SyntaxNode> {
  if (Array.isArray(value)) {
    for (const item of value) yield* nodesOf(item);
  } else if (isNode(value)) {
    yield value;
    for (const child of Object.values(value)) yield* nodesOf(child);
  }
}

export function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** The text of a string literal or of a template, each of whose holes becomes a space; undefined for anything else. */
export function literalText(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value.type === 'Literal' && typeof value.value === 'string') return value.value;
  if (value.type !== 'TemplateLiteral' || !Array.isArray(value.quasis)) return undefined;
  return value.quasis.map(({ value: piece }) => piece.cooked).join(' ');
}

export function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}
