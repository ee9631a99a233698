import { runSharedTests } from '../../../support/shared-tests.ts';

runSharedTests('glue');
