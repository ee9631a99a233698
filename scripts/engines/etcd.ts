import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { binaryIn, type Engine, run } from './bring.ts';
import { buildWithGo } from './go.ts';

/** What Go builds where there is no Debian; Debian's own is 3.4 or newer. */
const GO_VERSION = '3.6.5';

export const etcd: Engine = {
  name: 'etcd',
  version: 'any',
  variable: 'SPEAR_ETCD',
  install: 'apt-get (etcd-server of Debian), or Go',
  anyVersion: true,
  sources: [
    { title: 'apt-get', bring: fromDebian },
    { title: 'go', bring: (folder) => buildWithGo(folder, 'go.etcd.io/etcd/server/v3', `v${GO_VERSION}`) },
  ],
};

/** Downloaded and unpacked: installing it would start a service. */
async function fromDebian(folder: string): Promise<string> {
  const download = () => run('apt-get', ['download', '--quiet', 'etcd-server'], folder);
  await download().catch(async () => {
    await run('apt-get', ['update', '--quiet'], folder);
    await download();
  });
  const file = (await readdir(folder)).find((name) => name.endsWith('.deb'));
  if (file === undefined) throw new Error('apt-get downloaded no package');
  await run('dpkg-deb', ['--extract', file, 'unpacked'], folder);
  return binaryIn(join(folder, 'unpacked'), 'etcd');
}
