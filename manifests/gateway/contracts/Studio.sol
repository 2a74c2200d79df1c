// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A studio: works with evidence, scores of validators, and epochs that end
/// @notice Workflows drive this contract and ask it what has happened. There is a view for each
/// question, and a custom error for each rule.
///
/// `registerWork` and `registerValidator` append on every call. They are not idempotent on purpose:
/// a transaction that lands twice can be seen in `registrationsOf` and `validatorRegistrationsOf`.
contract Studio {
    uint256 private constant SCORES_MAX = 32;

    uint8 private constant NONE = 0;
    uint8 private constant COMMITTED = 1;
    uint8 private constant SCORED = 2;

    struct Work {
        address submitter;
        uint64 epoch;
        string arweaveId;
    }

    struct Score {
        uint8 status;
        uint64 opensAt;
        uint64 closesAt;
        bytes32 commitment;
        uint16[] scores;
        uint256 registrations;
    }

    struct Registration {
        bytes32 dataHash;
        address by;
    }

    /// @notice Seconds from a commit until its reveal opens, and for which it then stays open.
    uint64 public immutable revealDelay;
    uint64 public immutable revealWindow;

    mapping(bytes32 dataHash => Work) private works;
    mapping(uint64 epoch => uint256) private workCounts;
    mapping(uint64 epoch => address) private closers;
    mapping(bytes32 dataHash => mapping(address worker => mapping(address validator => Score))) private scores_;
    mapping(bytes32 dataHash => mapping(address by => uint256)) private registrationCounts;
    Registration[] private registrations;

    event WorkSubmitted(bytes32 indexed dataHash, address indexed by, uint64 epoch, string arweaveId);
    event WorkRegistered(bytes32 indexed dataHash, address indexed by, uint256 index);
    event ScoreCommitted(bytes32 indexed dataHash, address indexed worker, address indexed validator);
    event ScoreSubmitted(bytes32 indexed dataHash, address indexed worker, address indexed validator);
    event ValidatorRegistered(
        bytes32 indexed dataHash, address indexed worker, address indexed validator, uint256 index
    );
    event EpochEnded(uint64 indexed epoch, address indexed by);

    error AlreadySubmitted(bytes32 dataHash, address by);
    error EpochClosed(uint64 epoch);
    error EpochEmpty(uint64 epoch);
    error UnknownWork(bytes32 dataHash);
    error NotTheWorker(bytes32 dataHash, address worker);
    error AlreadyScored(bytes32 dataHash, address worker, address validator);
    error NotCommitted(bytes32 dataHash, address worker, address validator);
    error WrongReveal(bytes32 dataHash, address worker, address validator);
    error WindowNotOpen(uint64 opensAt);
    error WindowClosed(uint64 closesAt);
    error NotTheSubmitter(bytes32 dataHash, address by);

    constructor(uint64 delay, uint64 window) {
        revealDelay = delay;
        revealWindow = window;
    }

    // Works

    /// @notice Submit a work. A work is submitted once; the caller becomes its submitter.
    function submitWork(bytes32 dataHash, uint64 epoch, string calldata arweaveId) external {
        address by = works[dataHash].submitter;
        if (by != address(0)) revert AlreadySubmitted(dataHash, by);
        if (closers[epoch] != address(0)) revert EpochClosed(epoch);
        works[dataHash] = Work(msg.sender, epoch, arweaveId);
        workCounts[epoch] += 1;
        emit WorkSubmitted(dataHash, msg.sender, epoch, arweaveId);
    }

    /// @notice Append the work to the list of registrations, each time. Only its submitter may.
    function registerWork(bytes32 dataHash) external {
        address submitter = works[dataHash].submitter;
        if (submitter == address(0)) revert UnknownWork(dataHash);
        if (submitter != msg.sender) revert NotTheSubmitter(dataHash, msg.sender);
        uint256 index = registrations.length;
        registrations.push(Registration(dataHash, msg.sender));
        registrationCounts[dataHash][msg.sender] += 1;
        emit WorkRegistered(dataHash, msg.sender, index);
    }

    // Scores

    /// @notice Score a work openly, in one step. Stores the commitment of these scores with salt 0.
    function submitScore(bytes32 dataHash, address worker, uint16[] calldata scores) external {
        requireCount(scores);
        Score storage score = newScore(dataHash, worker);
        score.status = SCORED;
        score.commitment = commitmentFor(dataHash, worker, msg.sender, scores, 0);
        score.scores = scores;
        emit ScoreSubmitted(dataHash, worker, msg.sender);
    }

    /// @notice Commit to scores. Their reveal opens `revealDelay` after this block's time.
    function commitScore(bytes32 dataHash, address worker, bytes32 commitment) external {
        Score storage score = newScore(dataHash, worker);
        score.status = COMMITTED;
        score.commitment = commitment;
        score.opensAt = uint64(block.timestamp) + revealDelay;
        score.closesAt = score.opensAt + revealWindow;
        emit ScoreCommitted(dataHash, worker, msg.sender);
    }

    /// @notice Reveal committed scores while the window is open: opensAt <= time < closesAt.
    /// A reveal is possible after the epoch of the work has closed.
    function revealScore(bytes32 dataHash, address worker, uint16[] calldata scores, bytes32 salt)
        external
    {
        requireCount(scores);
        Score storage score = scores_[dataHash][worker][msg.sender];
        if (score.status == NONE) revert NotCommitted(dataHash, worker, msg.sender);
        if (score.status == SCORED) revert AlreadyScored(dataHash, worker, msg.sender);
        if (block.timestamp < score.opensAt) revert WindowNotOpen(score.opensAt);
        if (block.timestamp >= score.closesAt) revert WindowClosed(score.closesAt);
        if (commitmentFor(dataHash, worker, msg.sender, scores, salt) != score.commitment) {
            revert WrongReveal(dataHash, worker, msg.sender);
        }
        score.status = SCORED;
        score.scores = scores;
        emit ScoreSubmitted(dataHash, worker, msg.sender);
    }

    /// @notice Append a registration of the validator for a score, each time. Anyone may.
    function registerValidator(bytes32 dataHash, address worker, address validator) external {
        Score storage score = scores_[dataHash][worker][validator];
        if (score.status != SCORED) revert NotCommitted(dataHash, worker, validator);
        uint256 index = score.registrations;
        score.registrations = index + 1;
        emit ValidatorRegistered(dataHash, worker, validator, index);
    }

    // Epochs

    /// @notice Close an epoch that has works. It then accepts no work, score or commitment.
    function closeEpoch(uint64 epoch) external {
        if (closers[epoch] != address(0)) revert EpochClosed(epoch);
        if (workCounts[epoch] == 0) revert EpochEmpty(epoch);
        closers[epoch] = msg.sender;
        emit EpochEnded(epoch, msg.sender);
    }

    // Views

    /// @notice The address that submitted the work; zero: no one has.
    function submitterOf(bytes32 dataHash) external view returns (address) {
        return works[dataHash].submitter;
    }

    function workOf(bytes32 dataHash)
        external
        view
        returns (address submitter, uint64 epoch, string memory arweaveId)
    {
        Work storage work = works[dataHash];
        return (work.submitter, work.epoch, work.arweaveId);
    }

    /// @notice How often this address has registered the work.
    function registrationsOf(bytes32 dataHash, address by) external view returns (uint256) {
        return registrationCounts[dataHash][by];
    }

    function registrationCount() external view returns (uint256) {
        return registrations.length;
    }

    function registration(uint256 index) external view returns (bytes32 dataHash, address by) {
        Registration storage found = registrations[index];
        return (found.dataHash, found.by);
    }

    /// @notice 0: none, 1: committed, 2: scored.
    function scoreStatusOf(bytes32 dataHash, address worker, address validator)
        external
        view
        returns (uint8)
    {
        return scores_[dataHash][worker][validator].status;
    }

    function commitmentOf(bytes32 dataHash, address worker, address validator)
        external
        view
        returns (bytes32)
    {
        return scores_[dataHash][worker][validator].commitment;
    }

    /// @notice The seconds (Unix time) between which a commitment can be revealed; 0 without one.
    function revealWindowOf(bytes32 dataHash, address worker, address validator)
        external
        view
        returns (uint64 opensAt, uint64 closesAt)
    {
        Score storage score = scores_[dataHash][worker][validator];
        return (score.opensAt, score.closesAt);
    }

    function scoresOf(bytes32 dataHash, address worker, address validator)
        external
        view
        returns (uint16[] memory)
    {
        return scores_[dataHash][worker][validator].scores;
    }

    /// @notice How often the validator has been registered for this score.
    function validatorRegistrationsOf(bytes32 dataHash, address worker, address validator)
        external
        view
        returns (uint256)
    {
        return scores_[dataHash][worker][validator].registrations;
    }

    /// @notice The address that closed the epoch; zero: it is open.
    function closerOf(uint64 epoch) external view returns (address) {
        return closers[epoch];
    }

    function worksIn(uint64 epoch) external view returns (uint256) {
        return workCounts[epoch];
    }

    // Rules

    function requireCount(uint16[] calldata scores) private pure {
        require(scores.length >= 1 && scores.length <= SCORES_MAX, "expected 1 to 32 scores");
    }

    /// The empty place of the caller's score of this work; reverts where it may not be scored.
    function newScore(bytes32 dataHash, address worker) private view returns (Score storage score) {
        Work storage work = works[dataHash];
        if (work.submitter == address(0)) revert UnknownWork(dataHash);
        if (work.submitter != worker) revert NotTheWorker(dataHash, worker);
        score = scores_[dataHash][worker][msg.sender];
        if (score.status != NONE) revert AlreadyScored(dataHash, worker, msg.sender);
        if (closers[work.epoch] != address(0)) revert EpochClosed(work.epoch);
    }

    function commitmentFor(
        bytes32 dataHash,
        address worker,
        address validator,
        uint16[] calldata scores,
        bytes32 salt
    ) private pure returns (bytes32) {
        return keccak256(abi.encode(dataHash, worker, validator, scores, salt));
    }
}
