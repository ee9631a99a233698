import { createMemoryStore } from '../../../src/server/store/local-store.ts';
import { describeStore } from './contract.ts';

describeStore('memory', async (options) => {
  const store = createMemoryStore(options);
  return { store, close: () => store.close() };
});
