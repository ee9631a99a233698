import { lstat, readlink } from 'node:fs/promises';
import type { SandboxNetwork } from '../../../../server/records/record.ts';
import type { Executable } from './executable.ts';

/** One option of bubblewrap that puts something into the sandbox's file system. */
export interface Mount {
  readonly kind: 'ro-bind' | 'ro-bind-try' | 'bind' | 'symlink' | 'proc' | 'dev' | 'tmpfs';
  readonly path: string;
  /** For a symlink. @default the path itself */
  readonly target?: string;
}

export interface SandboxContent {
  readonly executable: Executable;
  readonly home: string;
  readonly tmpDir: string;
  readonly readOnlyPaths: readonly string[];
  readonly writablePaths: readonly string[];
}

const systemFolders = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** What programs under /usr need to start. */
const loaderFiles = ['/etc/ld.so.cache', '/etc/ld.so.conf', '/etc/ld.so.conf.d', '/etc/alternatives', '/etc/localtime'];

/** What they need to find other machines and to know whom to trust. Not the folders around: keys may lie there. */
const networkFiles = [
  '/etc/resolv.conf',
  '/etc/hosts',
  '/etc/host.conf',
  '/etc/nsswitch.conf',
  '/etc/gai.conf',
  '/etc/services',
  '/etc/protocols',
  '/etc/ssl/certs',
  '/etc/ssl/openssl.cnf',
  '/etc/ca-certificates',
  '/etc/pki/tls/certs',
  '/etc/pki/tls/cert.pem',
  '/etc/pki/tls/openssl.cnf',
  '/etc/pki/ca-trust/extracted',
];

/** The system's part of every sandbox. */
export async function systemMounts(network: SandboxNetwork): Promise<Mount[]> {
  const folders = await Promise.all(systemFolders.map(systemFolder));
  const files = network === 'allow' ? [...loaderFiles, ...networkFiles] : loaderFiles;
  return [
    { kind: 'ro-bind', path: '/usr' },
    ...folders.flat(),
    { kind: 'proc', path: '/proc' },
    { kind: 'dev', path: '/dev' },
    { kind: 'tmpfs', path: '/tmp' },
    ...files.map((path): Mount => ({ kind: 'ro-bind-try', path })),
  ];
}

/** On most systems these are links into /usr; on others they are folders of their own. */
async function systemFolder(path: string): Promise<Mount[]> {
  const found = await lstat(path).catch(() => null);
  if (found === null) return [];
  if (found.isSymbolicLink()) return [{ kind: 'symlink', path, target: await readlink(path) }];
  return [{ kind: 'ro-bind', path }];
}

/** A server's own part: its directories, its command, and what its record lists. */
export function contentMounts(content: SandboxContent, system: readonly Mount[]): Mount[] {
  const { executable, home, tmpDir, readOnlyPaths, writablePaths } = content;
  const listed: Mount[] = [
    ...[home, tmpDir, ...writablePaths].map((path): Mount => ({ kind: 'bind', path })),
    // After the writable ones: a path in both lists is read-only.
    ...readOnlyPaths.map((path): Mount => ({ kind: 'ro-bind', path })),
  ];
  const { path, real } = executable;
  const present = [...system, ...listed];
  if (!isVisible(real, present)) listed.push({ kind: 'ro-bind', path: real });
  if (path !== real && !isVisible(path, present)) listed.push({ kind: 'symlink', path, target: real });
  return listed;
}

/** Whether the path lies in something that is mounted; what is only a link there is taken to be so. */
export function isVisible(path: string, mounts: readonly Mount[]): boolean {
  return mounts.some(({ kind, path: mounted }) => {
    if (kind === 'tmpfs' || kind === 'proc' || kind === 'dev') return false;
    return path === mounted || path.startsWith(mounted.endsWith('/') ? mounted : `${mounted}/`);
  });
}

/** Outer ones first: a later mount hides what lies under it. */
export function mountArguments(mounts: readonly Mount[]): string[] {
  const wholeSystem = mounts.some(({ path }) => path === '/');
  // Where a record lists the root itself, the system's own part is in it.
  const wanted = mounts.filter(({ kind }) => !wholeSystem || (kind !== 'symlink' && kind !== 'ro-bind-try'));
  return [...wanted]
    .sort((a, b) => depth(a.path) - depth(b.path))
    .flatMap(({ kind, path, target }) => {
      if (kind === 'proc' || kind === 'dev' || kind === 'tmpfs') return [`--${kind}`, path];
      return [`--${kind}`, target ?? path, path];
    });
}

function depth(path: string): number {
  return path.split('/').filter((part) => part !== '').length;
}
