import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { isNode, lineOf, literalText, nodesOf, parseTypeScript, type SyntaxNode } from './syntax-tree.ts';

/** The rooms of src/, from the top down: a file may import from its own room and from those after it. */
export const rooms = [
  'cli',
  'console',
  'node',
  'registry',
  'server/routes',
  'run',
  'server/http',
  'server/tasks',
  'server/queue',
  'runtime/host',
  'runtime/wasm',
  'runtime/guest',
  'runtime/durable/guest',
  'agent/mcp',
  'agent/chat',
  'server/timeline',
  'server/telemetry',
  'agent/approvals',
  'server/identity',
  'agent/mcp/client',
  'server/egress',
  'runtime/durable',
  'registry-client',
  'server/store',
  'agent/policy',
  'server/audit',
  'server/log',
  'config',
  'server/records',
  'generated',
  'runtime/port',
  'runtime/abi',
  'server/secrets',
  'base',
] as const;

/** Programs of their own: none of them imports another. The commands in cli/ start them. */
const PRODUCTS: readonly string[] = ['console', 'node', 'registry'];

/** The thread that runs guest code: everything its entry can reach, types included, is in these rooms. */
const GUEST_ENTRY = 'runtime/guest/worker.ts';
const GUEST_ROOMS: readonly string[] = [
  'runtime/guest',
  'runtime/durable/guest',
  'runtime/port',
  'runtime/abi',
  'base',
];

/** Code that runs in a browser: its own files, and below them only these, none of which may need more than a browser has. */
const BROWSER_FOLDER = 'console/';
const BROWSER_REACH: readonly string[] = [
  'base/',
  'runtime/port/',
  'server/records/',
  'server/timeline/run-picture.ts',
  'registry/console-api.ts',
];
const BROWSER_PACKAGES = /^(?:preact|uplot)(?:\/|$)/;

export const MAX_LINES = 800;
export const MAX_FILES = 25;

/** The public surface: it may import anything, and nothing imports it. */
const ENTRY = 'index.ts';
const ENVIRONMENT_ROOM = 'config';
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
  return [
    ...files.flatMap(problemsOfFile),
    ...fullFolders(files),
    ...guestReach(files),
    ...browserReach(files),
    ...cycles(files),
  ];
}

/** One line for each folder with more files than a reader can survey. */
function fullFolders(files: readonly SourceFile[]): string[] {
  const counts = new Map<string, number>();
  for (const { path } of files) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  return [...counts].flatMap(([folder, count]) =>
    count <= MAX_FILES || folder.startsWith('generated')
      ? []
      : [`src/${folder}: ${count} files, at most ${MAX_FILES} are allowed: merge files that change together, or split`],
  );
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

/** The room of a path, which is the longest that contains it; undefined: it is in none. */
function roomOf(path: string): string | undefined {
  return rooms
    .filter((room) => path.startsWith(`${room}/`))
    .sort((a, b) => b.length - a.length)
    .at(0);
}

function rank(room: string | undefined): number {
  return (rooms as readonly (string | undefined)[]).indexOf(room);
}

function problemsOfFile({ path, lines, imports, environmentReads }: SourceFile): string[] {
  const problems: string[] = [];
  const room = roomOf(path);
  if (path !== ENTRY && room === undefined) {
    problems.push(`src/${path}: is not in a room (${rooms.join(', ')}); only src/${ENTRY} may be outside of a room`);
  } else {
    problems.push(...imports.flatMap(({ target, line }) => wrongDirection(path, target, line)));
  }
  if (room !== ENVIRONMENT_ROOM) {
    for (const line of environmentReads) {
      problems.push(`src/${path}:${line}: reads process.env; only src/${ENVIRONMENT_ROOM}/ does, pass the value in`);
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
  const [from, to] = [roomOf(path), roomOf(target)];
  if (target.startsWith(BROWSER_FOLDER) || path.startsWith(BROWSER_FOLDER)) return []; // browserReach() checks these
  if (from !== to && [from, to].every((room) => PRODUCTS.includes(room ?? ''))) {
    return [`${where}: imports src/${target}: ${from} and ${to} are separate programs; move shared code to server/`];
  }
  if (rank(from) <= rank(to)) return [];
  return [`${where}: imports src/${target}: ${from} may not import ${to}, imports go down: ${rooms.join(' > ')}`];
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
      const room = roomOf(target);
      if (room === undefined || GUEST_ROOMS.includes(room)) visit(target);
      else {
        const allowed = GUEST_ROOMS.join(', ');
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
      if (!isBrowsers(target) && !BROWSER_REACH.some((allowed) => target.startsWith(allowed))) {
        const allowed = BROWSER_REACH.join(', ');
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
