import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { errorCode } from '../../base/errors.ts';
import type { HttpReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { HttpCall, Route } from '../../server/http/route.ts';

/** What the build made of src/console. */
const folder = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../../dist/console/' : './console/', import.meta.url),
);

const PAGE = 'index.html';

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** The page runs its own script and style, talks to this registry, and is shown in no frame. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const pageHeaders = {
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), usb=()',
  'x-frame-options': 'DENY',
};

interface Asset {
  readonly headers: Readonly<Record<string, string>>;
  readonly plain: Buffer;
  readonly zipped: Buffer;
}

/** The console: a page, and files whose names change with what they hold. Read when somebody first asks. */
export function consoleRoutes(): Route[] {
  let assets: ReadonlyMap<string, Asset> | null = null;
  const find = (name: string) => {
    assets ??= readAssets();
    return assets.get(name);
  };
  const answer = (name: string, { headers }: HttpCall): HttpReply => {
    const asset = find(name);
    if (asset === undefined) throw new HttpProblem(404, 'no-such-path', 'no such path');
    const takesGzip = /\bgzip\b/.test(String(headers['accept-encoding'] ?? ''));
    return {
      status: 200,
      headers: { ...asset.headers, vary: 'accept-encoding', ...(takesGzip ? { 'content-encoding': 'gzip' } : {}) },
      body: takesGzip ? asset.zipped : asset.plain,
    };
  };
  const moved = async () => ({ status: 302, headers: { location: '/console/' }, body: '' });
  const get = { method: 'GET', needs: 'anybody' } as const;
  return [
    { ...get, path: '/', run: moved },
    { ...get, path: '/console', run: moved },
    { ...get, path: '/console/', run: async (call) => answer(PAGE, call) },
    { ...get, path: '/console/{id}', run: async (call) => answer(call.id, call) },
  ];
}

/** By name: nothing that a caller asks for becomes part of a path. */
function readAssets(): ReadonlyMap<string, Asset> {
  return new Map(names().map((name) => [name, readAsset(name)]));
}

function names(): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    throw new HttpProblem(404, 'no-such-path', 'the console is not installed; build it with npm run build');
  }
}

function readAsset(name: string): Asset {
  const plain = readFileSync(`${folder}/${name}`);
  const type = types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
  const caching = name === PAGE ? 'no-cache' : 'public, max-age=31536000, immutable';
  return {
    headers: { 'content-type': type, 'cache-control': caching, ...pageHeaders },
    plain,
    zipped: gzipSync(plain, { level: 9 }),
  };
}
