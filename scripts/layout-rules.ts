import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { isNode, lineOf, literalText, nodesOf, parseTypeScript, type SyntaxNode } from './syntax-tree.ts';

/** The folders of src/, from the top down: a file may import from its own layer and from those after it. */
export const layers = [
  'cli',
  'doctor',
  'judge',
  'spearlet',
  'run',
  'sms',
  'queue',
  'tasks',
  'load',
  'guest',
  'hostcalls',
  'fd',
  'mcp',
  'chat',
  'pool',
  'registry',
  'policy',
  'journal',
  'metrics',
  'audit',
  'telemetry',
  'config',
  'protocol',
  'secrets',
  'abi',
  'base',
] as const;

/** The thread that runs guest code: everything its entry can reach, types included, is in these layers. */
const GUEST_ENTRY = 'guest/worker.ts';
const GUEST_LAYERS: readonly string[] = ['guest', 'hostcalls', 'fd', 'protocol', 'abi', 'base'];

/** What runs in a browser: its own files, and what they reach below, none of which may need more than a browser has. */
const BROWSER_FOLDER = 'sms/console/';
const BROWSER_LAYERS: readonly string[] = ['protocol', 'base'];
const BROWSER_PACKAGES = /^(?:preact|uplot)(?:\/|$)/;

export const MAX_LINES = 500;

/** The public surface: it may import anything, and nothing imports it. */
const ENTRY = 'index.ts';
const ENVIRONMENT_LAYER = 'config';
/** What src/ may import from outside of itself. */
const OUTSIDE = ['package.json'];

interface Import {
  /** Relative to src/. */
  readonly target: string;
  readonly line: number;
  /** Nothing of it is there at run time. */
  readonly isType: boolean;
}

interface PackageImport {
  readonly name: string;
  readonly line: number;
}

interface SourceFile {
  /** Relative to src/, with forward slashes. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  /** Those of them that are there at run time. */
  readonly packages: readonly PackageImport[];
  readonly environmentReads: readonly number[];
}

/** Everything in `root`/src that breaks a rule of the layout, one line each. */
export function layoutProblems(root: string): string[] {
  const src = join(root, 'src');
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/.test(path))
    .map((path) => readSource(src, path))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
  return [...files.flatMap(problemsOfFile), ...guestReach(files), ...browserReach(files), ...cycles(files)];
}

function readSource(src: string, path: string): SourceFile {
  const text = readFileSync(join(src, path), 'utf8');
  const found = [...nodesOf(parseTypeScript(text, path.endsWith('x') ? 'tsx' : 'ts'))];
  return {
    path: path.replaceAll(sep, '/'),
    lines: text.trimEnd().split('\n').length,
    imports: found.flatMap((node) => {
      const specifier = specifierOf(node);
      if (!specifier?.startsWith('.')) return [];
      const target = relative(src, resolve(src, dirname(path), specifier)).replaceAll(sep, '/');
      return [{ target, line: lineOf(text, node.start), isType: isTypeImport(node) }];
    }),
    packages: found.flatMap((node) => {
      const name = specifierOf(node);
      return name === undefined || name.startsWith('.') || isTypeImport(node)
        ? []
        : [{ name, line: lineOf(text, node.start) }];
    }),
    environmentReads: found.filter(readsEnvironment).map((node) => lineOf(text, node.start)),
  };
}

/** What a node imports, types and dynamic imports included. */
function specifierOf(node: SyntaxNode): string | undefined {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
    case 'ImportExpression':
    case 'TSImportType':
      return literalText(node.source);
    default:
      return undefined;
  }
}

function isTypeImport({ type, importKind, exportKind }: SyntaxNode): boolean {
  return type === 'TSImportType' || importKind === 'type' || exportKind === 'type';
}

/** `process.env` in any of its spellings. */
function readsEnvironment(node: SyntaxNode): boolean {
  switch (node.type) {
    case 'MemberExpression':
      return nameOf(node.property) === 'env' && lastName(node.object) === 'process';
    case 'VariableDeclarator':
      return lastName(node.init) === 'process' && propertyNames(node.id).includes('env');
    case 'ImportDeclaration': {
      const source = literalText(node.source);
      if (source !== 'node:process' && source !== 'process') return false;
      return [...nodesOf(node.specifiers)].some(
        ({ type, imported }) => type === 'ImportSpecifier' && nameOf(imported) === 'env',
      );
    }
    default:
      return false;
  }
}

function nameOf(node: unknown): unknown {
  return isNode(node) ? (node.name ?? node.value) : undefined;
}

function lastName(node: unknown): unknown {
  return isNode(node) && node.type === 'MemberExpression' ? nameOf(node.property) : nameOf(node);
}

function propertyNames(pattern: unknown): unknown[] {
  if (!isNode(pattern) || pattern.type !== 'ObjectPattern' || !Array.isArray(pattern.properties)) return [];
  return pattern.properties.map(({ key }) => nameOf(key));
}

function layerOf(path: string): string | undefined {
  return path.includes('/') ? path.split('/', 1)[0] : undefined;
}

function rank(layer: string | undefined): number {
  return (layers as readonly (string | undefined)[]).indexOf(layer);
}

function problemsOfFile({ path, lines, imports, environmentReads }: SourceFile): string[] {
  const problems: string[] = [];
  const layer = layerOf(path);
  if (path !== ENTRY && rank(layer) < 0) {
    problems.push(`src/${path}: is not in a layer (${layers.join(', ')}); only src/${ENTRY} may be outside of a layer`);
  } else {
    problems.push(...imports.flatMap(({ target, line }) => wrongDirection(path, target, line)));
  }
  if (layer !== ENVIRONMENT_LAYER) {
    for (const line of environmentReads) {
      problems.push(`src/${path}:${line}: reads process.env; only src/${ENVIRONMENT_LAYER}/ does, pass the value in`);
    }
  }
  if (lines > MAX_LINES)
    problems.push(`src/${path}: ${lines} lines, at most ${MAX_LINES} are allowed: split it by idea`);
  return problems;
}

function wrongDirection(path: string, target: string, line: number): string[] {
  const where = `src/${path}:${line}`;
  if (target.startsWith('../')) {
    const outside = target.slice('../'.length);
    return OUTSIDE.includes(outside) ? [] : [`${where}: imports ${outside}, which is outside src/`];
  }
  if (target === ENTRY)
    return [`${where}: imports src/${ENTRY}, the public surface; import the file that it exports from`];
  if (path === ENTRY) return [];
  const [from, to] = [layerOf(path), layerOf(target)];
  if (rank(from) <= rank(to)) return [];
  return [`${where}: imports src/${target}: ${from} may not import ${to}, imports go down: ${layers.join(' > ')}`];
}

/** One line for each import by which the guest's thread would reach what is the host's: keys, connections, policy. */
function guestReach(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const reached = new Set<string>();
  const found: string[] = [];

  function visit(path: string): void {
    if (reached.has(path)) return;
    reached.add(path);
    for (const { target, line } of byPath.get(path)?.imports ?? []) {
      const layer = layerOf(target);
      if (layer === undefined || layer === '..' || GUEST_LAYERS.includes(layer)) visit(target);
      else {
        const allowed = GUEST_LAYERS.join(', ');
        found.push(
          `src/${path}:${line}: imports src/${target}: the guest's thread reaches it, and may reach ${allowed}`,
        );
      }
    }
  }

  visit(GUEST_ENTRY);
  return found;
}

/** One line for each import by which the browser would need what it has not, or the rest would need the browser's. */
function browserReach(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const isBrowsers = (path: string) => path.startsWith(BROWSER_FOLDER);
  const reached = new Set<string>();
  const found: string[] = [];

  function visit(path: string): void {
    if (reached.has(path)) return;
    reached.add(path);
    const { imports = [], packages = [] } = byPath.get(path) ?? {};
    for (const { name, line } of packages) {
      if (BROWSER_PACKAGES.test(name)) continue;
      found.push(
        `src/${path}:${line}: imports ${name}, which a browser does not have: src/${BROWSER_FOLDER} reaches it`,
      );
    }
    for (const { target, line, isType } of imports) {
      if (!isBrowsers(target) && !BROWSER_LAYERS.includes(layerOf(target) ?? '')) {
        const allowed = BROWSER_LAYERS.join(', ');
        found.push(`src/${path}:${line}: imports src/${target}: what runs in a browser may reach ${allowed}`);
      } else if (!isType) visit(target);
    }
  }

  for (const { path, imports } of files) {
    if (isBrowsers(path)) visit(path);
    else {
      for (const { target, line } of imports.filter(({ target: name }) => isBrowsers(name))) {
        found.push(`src/${path}:${line}: imports src/${target}, which runs in a browser and nowhere else`);
      }
    }
  }
  return found;
}

/** One line for each cycle that a walk in the order of the files closes. */
function cycles(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const open: string[] = [];
  const found: string[] = [];

  function visit(path: string): void {
    if (done.has(path)) return;
    const start = open.indexOf(path);
    if (start >= 0) {
      found.push(`import cycle: ${[...open.slice(start), path].map((step) => `src/${step}`).join(' -> ')}`);
      return;
    }
    open.push(path);
    for (const { target } of byPath.get(path)?.imports ?? []) visit(target);
    open.pop();
    done.add(path);
  }

  for (const { path } of files) visit(path);
  return found;
}
