import { runWith } from '../../../support/shared-tests.ts';

runWith('shared');
