import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';

interface Installed {
  readonly folder: string;
  readonly manifest: { readonly name: string; readonly version: string };
}

/**
 * A package registry on loopback that serves what is installed in a project, so that a real `npm install` elsewhere needs no
 * network and gets the very versions that were tested.
 */
export class LocalRegistry {
  readonly #server: Server;
  readonly #packages = new Map<string, Installed[]>();

  private constructor(root: string) {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, unknown>;
    };
    for (const place of Object.keys(lock.packages)) {
      const found = place === '' ? undefined : readInstalled(join(root, place));
      if (found) this.#packages.set(found.manifest.name, [...(this.#packages.get(found.manifest.name) ?? []), found]);
    }
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  static async start(root: string): Promise<LocalRegistry> {
    const registry = new LocalRegistry(root);
    registry.#server.listen(0, '127.0.0.1');
    await once(registry.#server, 'listening');
    return registry;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** `/name` gives what there is of a package, `/name/-/version.tgz` one version of it. */
  #answer(request: IncomingMessage, response: ServerResponse): void {
    const [name = '', file] = decodeURIComponent(request.url?.slice(1) ?? '').split('/-/');
    const versions = this.#packages.get(name) ?? [];
    const wanted = versions.find(({ manifest }) => `${manifest.version}.tgz` === file);
    if (wanted) {
      sendTarball(wanted.folder, response);
      return;
    }
    if (versions.length === 0 || file !== undefined) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"not found"}');
      return;
    }
    const entries = versions.map(({ manifest }) => {
      const tarball = `${this.url}/${name}/-/${manifest.version}.tgz`;
      return [manifest.version, { ...manifest, dist: { tarball } }];
    });
    const body = {
      name,
      'dist-tags': { latest: versions[0]?.manifest.version },
      versions: Object.fromEntries(entries),
    };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }
}

/** What was optional and not for this platform is not there. */
function readInstalled(folder: string): Installed | undefined {
  try {
    return { folder, manifest: JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) };
  } catch {
    return undefined;
  }
}

function sendTarball(folder: string, response: ServerResponse): void {
  const base = folder.slice(dirname(folder).length + 1);
  const args = ['--exclude', `${base}/node_modules`, '--transform', `s,^${base},package,`, '-czf', '-', base];
  const tar = spawn('tar', ['-C', dirname(folder), ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  response.writeHead(200, { 'content-type': 'application/octet-stream' });
  tar.stdout.pipe(response);
}
