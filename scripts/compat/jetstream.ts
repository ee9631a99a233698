import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Stage } from '../demo-stage.ts';
import { startNats } from '../engines/nats-cluster.ts';
import { keepData, RecordedNode, recordEndedRuns, recordOpenRuns, writeNodeConfig } from './recorded-node.ts';

/** Writes `nats`: the store of a nats-server with the runs of a node, and the tasks of that node. */
export async function writeJetStream(fixtures: string): Promise<void> {
  await Stage.open('compat', async (stage) => {
    const store = stage.path('nats-store');
    const nats = await startNats({ members: 1, store, sync: 'always' });
    const [member] = nats.members;
    writeNodeConfig(stage.path('node'), '[journal]\nkey = "env:JOURNAL_KEY"\n\n[nats]\nreplicas = 1');
    const node = new RecordedNode(stage, 'node', ['--queue', `nats://${member?.address}`]);
    await node.start();
    stage.spear(['tasks', 'apply', stage.path('node/tasks.d')], { env: { SPEAR_NODE: node.address } });
    await recordEndedRuns(node, 'parked');
    await recordOpenRuns(node);
    await member?.kill();
    const kept = join(fixtures, 'nats');
    rmSync(kept, { recursive: true, force: true });
    cpSync(store, join(kept, 'store'), { recursive: true });
    keepData(stage.path('node/data'), join(kept, 'node/data'));
    for (const file of ['config.toml', 'model.json']) cpSync(stage.path('node', file), join(kept, 'node', file));
    await nats.stop();
    return 0;
  });
}
