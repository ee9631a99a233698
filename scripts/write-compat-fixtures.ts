// Writes fixtures/compat with the code of this checkout, except for its folder 0.2.0. Arguments name the parts to write:
// abi, proto, registry, nats, etcd. Fixtures are written when a format is new, and stay as they are afterwards.
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { abiTable } from './compat/abi-table.ts';
import { writeEtcdKeys } from './compat/etcd-keys.ts';
import { writeJetStream } from './compat/jetstream.ts';
import { writeRegistryAndNode } from './compat/registry-and-node.ts';
import { root } from './demo-stage.ts';

const fixtures = join(root, 'fixtures/compat');

const parts: Readonly<Record<string, () => void | Promise<void>>> = {
  abi() {
    const table = abiTable();
    writeFileSync(join(fixtures, `abi-${table.version}.json`), `${JSON.stringify(table, null, 1)}\n`);
  },
  proto() {
    rmSync(join(fixtures, 'proto'), { recursive: true, force: true });
    cpSync(join(root, 'src/server/records/proto'), join(fixtures, 'proto'), { recursive: true });
  },
  registry: () => writeRegistryAndNode(fixtures),
  nats: () => writeJetStream(fixtures),
  etcd: () => writeEtcdKeys(fixtures),
};

for (const name of process.argv.slice(2)) {
  const write = parts[name];
  if (write === undefined) throw new Error(`no part "${name}": expected ${Object.keys(parts).join(', ')}`);
  await write();
}
